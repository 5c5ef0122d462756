-- What the stress run works on: four streams, consumer groups, and tables that are written
-- in the same transactions as the records.

CREATE EXTENSION stream;
SELECT stream.create_stream('stress', 5);
-- a name that must be quoted, one partition, no compression
SELECT stream.create_stream('Stress "2"', 1, compression => 'none');
SELECT stream.create_stream('straddled');
SELECT stream.create_stream('derived', 2);

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

-- What consumers have done: a row for each record, and nothing that keeps them from doing
-- it again.  The number is drawn while the consumer holds the partition, so rows of a
-- partition have the order in which its consumers committed.
CREATE TABLE effect (
    id bigserial,
    consumer_group text NOT NULL,
    "partition" int NOT NULL,
    kind "char" NOT NULL DEFAULT 'c',   -- consumed; set: the group begins here; dropped
    record_offset bigint,               -- of the record; where the group begins
    record text,
    doomed text,                        -- 1: its publisher was going to roll it back
    call text,                          -- names the statement that consumed
    seen bigint,                        -- the number before, as that statement saw the table
    side boolean                        -- whether it saw the row of the record's transaction
);
CREATE INDEX ON effect (consumer_group, "partition", id);

CREATE FUNCTION last_effect(consumer_group text, "partition" int) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT id FROM effect e WHERE e.consumer_group = last_effect.consumer_group AND e."partition" = last_effect."partition"
    ORDER BY id DESC LIMIT 1
$$;

CREATE FUNCTION has_side(record text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM side WHERE transaction = substring(record FROM '^\d+\.\d+'))
$$;

-- Creates a group and writes down where it begins.
CREATE FUNCTION begin_group(stream text, consumer_group text, start text, max_poll_interval interval) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM stream.create_consumer_group(stream, consumer_group, start, max_poll_interval => max_poll_interval);
    INSERT INTO effect (consumer_group, "partition", kind, record_offset)
        SELECT l.consumer_group, l."partition", 's', l.committed_offset FROM stream.consumer_lag l
        WHERE l.stream = begin_group.stream AND l.consumer_group = begin_group.consumer_group;
END
$$;

-- Consumes one record after the other, each in an exception block, which fails now and
-- then; and all of them in another one.
CREATE FUNCTION consume_each(stream text, consumer_group text, call text, max_records int, fails boolean) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    r record;
    n bigint := 0;
BEGIN
    FOR r IN SELECT c."partition", record_offset, coalesce(value, headers) AS value
             FROM stream.consume(stream, consumer_group, max_records) c LOOP
        FOR try IN 1 .. 3 LOOP
            BEGIN
                INSERT INTO effect (consumer_group, "partition", record_offset, record, doomed, call, seen, side)
                    VALUES (consumer_group, r."partition", r.record_offset, r.value->>'i', r.value->>'d', call || '/' || n,
                            last_effect(consumer_group, r."partition"), has_side(r.value->>'i'));
                EXIT WHEN n % 5 > 0 OR try = 3;
                RAISE EXCEPTION 'take it back';
            EXCEPTION WHEN raise_exception THEN NULL;
            END;
        END LOOP;
        n := n + 1;
    END LOOP;
    IF fails THEN
        RAISE EXCEPTION 'take all back';
    END IF;
    RETURN n;
EXCEPTION WHEN raise_exception THEN
    RETURN 0;
END
$$;

-- Groups that nobody changes, one of them with a name that must be quoted; one that is
-- paused and set to other offsets, and one that is dropped and created again.
SELECT begin_group('stress', 'steady', 'earliest', '1 min');
SELECT begin_group('stress', 'relay', 'earliest', '1 min');
SELECT begin_group('Stress "2"', 'group "2"', 'earliest', '1 min');
SELECT begin_group('straddled', 'straddling', 'earliest', '1 min');
SELECT begin_group('derived', 'onward', 'earliest', '1 min');
SELECT begin_group('stress', 'unsettled', 'earliest', '150 ms');
SELECT begin_group('Stress "2"', 'brief', 'latest', '1 min');

-- What members of the group "team" have done, and committed; the numbers order both.
CREATE TABLE work (
    id bigserial,
    kind "char" NOT NULL DEFAULT 'd',   -- done; committed; committed at a call made again
    "partition" int NOT NULL,
    record_offset bigint NOT NULL,
    record text,
    member text NOT NULL,
    given int NOT NULL                  -- the epoch at which it was given the partition
);
SELECT stream.create_consumer_group('stress', 'team');
SELECT begin_group('stress', 'exact', 'earliest', '1 min');
