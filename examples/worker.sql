-- A worker in SQL: ships orders, each exactly once.  Start as many as you like; they
-- share the partitions.
--
--     SELECT stream.create_stream('orders', partitions => 4);
--     SELECT stream.create_consumer_group('orders', 'shipping');
--     CREATE TABLE shipments (order_id bigint NOT NULL, shipped_at timestamptz NOT NULL DEFAULT now());
--
-- When the connection is lost, or anything else ends it, it starts again:
--
--     delay=1
--     until psql -Xq -f worker.sql; do sleep $delay; delay=$((delay < 30 ? delay * 2 : 30)); done
--
-- SIGTERM, kill -9, pg_terminate_backend(): whatever ends it loses nothing.  What the
-- transaction has done is rolled back, and its records go to the next worker.
\set ON_ERROR_STOP on
SET application_name = 'shipping worker';
SET client_connection_check_interval = '1 s';       -- a loop in the server ends with its client

CREATE OR REPLACE PROCEDURE pg_temp.ship_orders() LANGUAGE plpgsql AS $$
DECLARE
    r record;
    pos text;                   -- the record in hand
    batch int := 1000;
    tries jsonb := '{}';        -- of records that fail
BEGIN
    LOOP
        PERFORM stream.wait_for_records('orders', 'shipping');
        COMMIT;                 -- what follows sees what was committed meanwhile
        pos := NULL;
        BEGIN
            FOR r IN SELECT * FROM stream.consume('orders', 'shipping', max_records => batch) LOOP
                pos := r.partition || ':' || r.record_offset;
                INSERT INTO shipments (order_id) VALUES ((r.value->>'id')::bigint);
            END LOOP;
            batch := least(1000, batch * 2);
        EXCEPTION
            WHEN serialization_failure OR deadlock_detected OR lock_not_available THEN
                PERFORM pg_sleep(random());
            WHEN OTHERS THEN
                -- The records are given back.  Take them one by one, to pass the one that
                -- fails three times; it is kept in stream.dead_letters.
                IF pos IS NULL THEN
                    RAISE;
                ELSIF batch > 1 THEN
                    batch := 1;
                ELSE
                    tries := tries || jsonb_build_object(pos, coalesce((tries->>pos)::int, 0) + 1);
                    RAISE WARNING 'record % failed: %', pos, SQLERRM;
                    IF (tries->>pos)::int >= 3 THEN
                        BEGIN
                            PERFORM stream.skip_record('orders', 'shipping', pos::stream.record_position, SQLERRM);
                            tries := tries - pos;
                        EXCEPTION WHEN object_in_use OR object_not_in_prerequisite_state THEN
                            NULL;           -- another worker is at it, or was
                        END;
                    END IF;
                    PERFORM pg_sleep(0.1);
                END IF;
        END;
        COMMIT;
    END LOOP;
END
$$;

CALL pg_temp.ship_orders();
