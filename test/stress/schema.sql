-- What the stress run works on: three streams, and tables that are written in the same
-- transactions as the records.

CREATE EXTENSION stream;
SELECT stream.create_stream('stress', 3);
-- a name that must be quoted, one partition, no compression
SELECT stream.create_stream('Stress "2"', 1, compression => 'none');
SELECT stream.create_stream('straddled');

-- One row for each transaction that publishes.
CREATE TABLE side (transaction text PRIMARY KEY);

-- Serialises its key by a row lock: each count is published in the key's record, so the
-- log must show 1, 2, 3, ... for it.
CREATE TABLE counter (key text PRIMARY KEY, n bigint NOT NULL) WITH (fillfactor = 50);
INSERT INTO counter SELECT 'c' || i, 0 FROM generate_series(1, 20) i;

-- Text that hardly shrinks when compressed.
CREATE FUNCTION noise(length int) RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT left(string_agg(md5(random()::text), ''), length) FROM generate_series(1, length / 32 + 1)
$$;

-- The value of a record: i names it by publisher, transaction and number; d is 1 when the
-- publisher is going to roll it back; sum is the checksum of the padding.
CREATE FUNCTION payload(transaction text, i int, doomed int, length int) RETURNS jsonb LANGUAGE sql VOLATILE AS $$
    SELECT jsonb_build_object('i', transaction || '.' || i, 'd', doomed, 'pad', pad, 'sum', md5(pad))
    FROM noise(length) pad
$$;

-- The values first to last of a call that publishes many.
CREATE FUNCTION payloads(transaction text, first int, last int, doomed int, length int) RETURNS jsonb[] LANGUAGE sql VOLATILE AS $$
    SELECT array_agg(payload(transaction, i, doomed, length) ORDER BY i) FROM generate_series(first, last) i
$$;

CREATE FUNCTION keys(first int, last int) RETURNS text[] LANGUAGE sql IMMUTABLE AS $$
    SELECT array_agg(CASE WHEN i % 8 > 0 THEN 'k' || i % 8 END ORDER BY i) FROM generate_series(first, last) i
$$;

-- Publishes each record in an exception block, and rolls every third back.
CREATE FUNCTION publish_with_exceptions(stream text, transaction text, first int, last int, doomed int)
    RETURNS TABLE (i int, kept boolean, "position" stream.record_position) LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN first .. last LOOP
        kept := i % 3 > 0;
        BEGIN
            "position" := stream.publish(stream, 'k' || i % 8,
                payload(transaction, i, greatest(doomed, (NOT kept)::int), 50));
            IF NOT kept THEN
                RAISE EXCEPTION 'take it back';
            END IF;
        EXCEPTION WHEN raise_exception THEN
            NULL;
        END;
        publish_with_exceptions.i := i;
        RETURN NEXT;
    END LOOP;
END
$$;

-- Reads again and again until there is something, or some time has passed.  Each turn is a
-- statement with a snapshot of its own, and hardly anything else, so that it is likely to
-- be in the middle of reading when a publisher commits; to make that likelier still, it
-- begins a little before the offset.
CREATE FUNCTION follow(stream text, partition int, from_offset bigint, ms int)
    RETURNS TABLE (record_offset bigint, record text, doomed text, side boolean, intact boolean) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    until timestamptz := clock_timestamp() + ms * interval '1 ms';
BEGIN
    LOOP
        RETURN QUERY SELECT r.record_offset, coalesce(value, headers)->>'i', coalesce(value, headers)->>'d',
                EXISTS (SELECT FROM side s WHERE s.transaction = substring(coalesce(value, headers)->>'i' FROM '^\d+\.\d+')), true
            FROM stream.read(follow.stream, follow.partition, greatest(follow.from_offset - 2, 0), 2000, NULL) r
            WHERE r.record_offset >= follow.from_offset;
        EXIT WHEN FOUND OR clock_timestamp() > until;
    END LOOP;
END
$$;
