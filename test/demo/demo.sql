-- The demo's tables and procedures; test/demo/run tells the story.

CREATE EXTENSION stream;
SELECT stream.create_stream('changes', partitions => 12);

-- The file, as plain rows.  A path always belongs to the same loader.
CREATE TABLE file (
    change_seq bigint PRIMARY KEY,
    commit_seq bigint NOT NULL,
    committed_at bigint NOT NULL,
    author int NOT NULL,
    path text NOT NULL,
    lines_added int,
    lines_deleted int,
    loader int NOT NULL GENERATED ALWAYS AS (1 + (hashtext(path) & 3)) STORED
);
CREATE INDEX ON file (loader, change_seq);

-- What a record's value should be.
CREATE FUNCTION value_of(f file) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT jsonb_build_object('change_seq', f.change_seq, 'commit_seq', f.commit_seq,
        'committed_at', f.committed_at, 'author', f.author,
        'lines_added', f.lines_added, 'lines_deleted', f.lines_deleted)
$$;

-- How far each loader has come.
CREATE TABLE loaded (loader int PRIMARY KEY, change_seq bigint NOT NULL, events int NOT NULL);
INSERT INTO loaded SELECT loader, 0, 0 FROM generate_series(1, 4) loader;

-- Publishes a loader's share, in transactions of 250 events.  Records and bookkeeping are
-- committed together: whoever calls it again goes on exactly where the last commit was.
CREATE PROCEDURE load(which int) LANGUAGE plpgsql AS $$
DECLARE
    first bigint;
    last bigint;
    n int;
BEGIN
    LOOP
        SELECT change_seq INTO first FROM loaded WHERE loader = which;
        SELECT max(change_seq) INTO last
            FROM (SELECT change_seq FROM file WHERE loader = which AND change_seq > first
                  ORDER BY change_seq LIMIT 250) batch;
        EXIT WHEN last IS NULL;
        INSERT INTO streams.changes (key, value)
            SELECT path, value_of(f) FROM file f
            WHERE loader = which AND change_seq > first AND change_seq <= last ORDER BY change_seq;
        GET DIAGNOSTICS n = ROW_COUNT;
        UPDATE loaded SET change_seq = last, events = events + n WHERE loader = which;
        COMMIT;
    END LOOP;
END
$$;

-- Stops loader 3 in the middle of a transaction, by locking the row it is about to update,
-- and returns its pid once it stands there.
CREATE FUNCTION catch_loader() RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    result int;
BEGIN
    WHILE (SELECT events FROM loaded WHERE loader = 3) < 10000 LOOP
        PERFORM pg_sleep(0.005);
    END LOOP;
    PERFORM FROM loaded WHERE loader = 3 FOR UPDATE;
    FOR i IN 1 .. 2000 LOOP
        SELECT pid INTO result FROM pg_stat_get_activity(NULL)
            WHERE application_name = 'loader 3' AND wait_event_type = 'Lock';
        EXIT WHEN FOUND;
        PERFORM pg_sleep(0.005);
        PERFORM pg_stat_clear_snapshot();
    END LOOP;
    RETURN result;
END
$$;

-- A consumer that notes what it reads, from its last position on.
CREATE TABLE records (
    partition int,
    record_offset bigint,
    published_at timestamptz,
    key text,
    value jsonb,
    headers jsonb,
    PRIMARY KEY (partition, record_offset)
);
CREATE PROCEDURE read_all() LANGUAGE plpgsql AS $$
DECLARE
    from_offset bigint;
BEGIN
    FOR p IN 0 .. 11 LOOP
        from_offset := NULL;
        LOOP
            INSERT INTO records SELECT * FROM stream.read('changes', p, from_offset, max_records => 5000, max_bytes => NULL);
            EXIT WHEN NOT FOUND;
            from_offset := (SELECT max(r.record_offset) + 1 FROM records r WHERE r.partition = p);
            COMMIT;
        END LOOP;
    END LOOP;
END
$$;
