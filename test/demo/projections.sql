-- What the demo's part about projections needs besides create_projections.sql.

SELECT stream.create_stream('edits', partitions => 4);
INSERT INTO sessions (name) VALUES ('publisher');

-- Publishes the file, in its order, in transactions of 250 events; goes on where the last commit was.
CREATE PROCEDURE publish_file() LANGUAGE plpgsql AS $$
DECLARE
    first bigint;
    n int;
BEGIN
    LOOP
        SELECT change_seq INTO first FROM sessions WHERE name = 'publisher';
        INSERT INTO streams.edits (key, value)
            SELECT path, value_of(f) FROM file f WHERE change_seq > first AND change_seq <= first + 250 ORDER BY change_seq;
        GET DIAGNOSTICS n = ROW_COUNT;
        EXIT WHEN n = 0;
        UPDATE sessions SET change_seq = first + 250, events = events + n WHERE name = 'publisher';
        COMMIT;
    END LOOP;
END
$$;

-- Waits, in short statements, until a projection has applied what has been published until now.
CREATE PROCEDURE await(projection text) LANGUAGE plpgsql AS $$
BEGIN
    WHILE NOT stream.wait_for(projection, timeout => '1 s') LOOP
        COMMIT;
    END LOOP;
END
$$;
