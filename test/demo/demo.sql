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

-- What each session has committed; loaders also remember where they are in the file.
CREATE TABLE sessions (name text PRIMARY KEY, events int NOT NULL DEFAULT 0, change_seq bigint NOT NULL DEFAULT 0);
INSERT INTO sessions (name) VALUES ('loader 1'), ('loader 2'), ('loader 3'), ('loader 4'), ('consumer 1'), ('consumer 2');

-- Publishes a loader's share, in transactions of 250 events.  Records and bookkeeping are
-- committed together: whoever calls it again goes on exactly where the last commit was.
CREATE PROCEDURE load(which int) LANGUAGE plpgsql AS $$
DECLARE
    session text := 'loader ' || which;
    first bigint;
    last bigint;
    n int;
BEGIN
    LOOP
        SELECT change_seq INTO first FROM sessions WHERE name = session;
        SELECT max(change_seq) INTO last
            FROM (SELECT change_seq FROM file WHERE loader = which AND change_seq > first
                  ORDER BY change_seq LIMIT 250) batch;
        EXIT WHEN last IS NULL;
        INSERT INTO streams.changes (key, value)
            SELECT path, value_of(f) FROM file f
            WHERE loader = which AND change_seq > first AND change_seq <= last ORDER BY change_seq;
        GET DIAGNOSTICS n = ROW_COUNT;
        UPDATE sessions SET change_seq = last, events = events + n WHERE name = session;
        COMMIT;
    END LOOP;
END
$$;

-- Stops a session in the middle of a transaction, once it has committed so many events, by
-- locking the row it is about to update.  Returns its pid when it stands there.
CREATE FUNCTION catch(session text, committed int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    result int;
BEGIN
    WHILE (SELECT events FROM sessions WHERE name = session) < committed LOOP
        PERFORM pg_sleep(0.005);
    END LOOP;
    PERFORM FROM sessions WHERE name = session FOR UPDATE;
    FOR i IN 1 .. 2000 LOOP
        SELECT pid INTO result FROM pg_stat_get_activity(NULL)
            WHERE application_name = session AND wait_event_type = 'Lock';
        EXIT WHEN FOUND;
        PERFORM pg_sleep(0.005);
        PERFORM pg_stat_clear_snapshot();
    END LOOP;
    RETURN result;
END
$$;

-- Waits until a server process has gone.
CREATE FUNCTION await_end_of(process int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    WHILE EXISTS (SELECT FROM pg_stat_get_activity(process)) LOOP
        PERFORM pg_sleep(0.005);
        PERFORM pg_stat_clear_snapshot();
    END LOOP;
END
$$;

-- A reader that notes what it reads, from its last position on.
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

-- Two consumers share the partitions and count what happened to each path.  Nothing here could
-- be repeated without harm: a record that came twice would be counted twice.
SELECT stream.create_consumer_group('changes', 'totals');
CREATE TABLE totals (path text PRIMARY KEY, changes int NOT NULL, lines_added bigint NOT NULL, lines_deleted bigint NOT NULL);

CREATE PROCEDURE count_changes(session text) LANGUAGE plpgsql AS $$
BEGIN
    -- Until there has been nothing to do for a while; a real worker goes on.
    WHILE stream.wait_for_records('changes', 'totals', '2 s') LOOP
        COMMIT;
        WITH records AS (
            SELECT key, value FROM stream.consume('changes', 'totals', max_records => 500)
        ), counted AS (
            INSERT INTO totals AS t
                SELECT key, count(*), sum(coalesce((value->>'lines_added')::int, 0)),
                    sum(coalesce((value->>'lines_deleted')::int, 0)) FROM records GROUP BY key
            ON CONFLICT (path) DO UPDATE SET changes = t.changes + excluded.changes,
                lines_added = t.lines_added + excluded.lines_added,
                lines_deleted = t.lines_deleted + excluded.lines_deleted
        )
        UPDATE sessions SET events = events + (SELECT count(*) FROM records) WHERE name = session;
        COMMIT;
    END LOOP;
END
$$;
