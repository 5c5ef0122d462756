-- Projections of the stress run's streams, and what each must have come to.

CREATE ROLE projector;
GRANT CREATE ON SCHEMA public TO projector;
SELECT stream.create_stream('echoed', 2);
GRANT SELECT ON streams.stress, streams."Stress ""2""", streams.straddled, streams.echoed TO projector;
GRANT INSERT ON streams.echoed TO projector;

-- want computes over the relation log, the records that have been applied, what have finds
-- in the target.
CREATE TABLE projected (
    projection text PRIMARY KEY,
    stream text NOT NULL,
    target text NOT NULL,       -- quoted where it must be
    creation text NOT NULL,     -- further arguments of create_projection
    want text NOT NULL,
    have text NOT NULL,
    recreated boolean NOT NULL DEFAULT true     -- may be dropped and created again
);
-- Where a projection begins.
CREATE TABLE projection_begun (
    projection text,
    "partition" int,
    begin_offset bigint NOT NULL,
    PRIMARY KEY (projection, "partition")
);

CREATE FUNCTION applied(name text) RETURNS TABLE ("partition" int, committed_offset bigint) LANGUAGE sql STABLE AS $$
    SELECT DISTINCT ON (o."partition") o."partition", o.committed_offset
    FROM stream_internal.offsets o JOIN stream_internal.projections ON group_id = projection_id
    WHERE projection = name ORDER BY o."partition", seq DESC
$$;

-- Creates a projection, as its role, and writes down where it begins.
CREATE FUNCTION begin_projection(name text, start text DEFAULT 'earliest') RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    p projected;
BEGIN
    SELECT * INTO STRICT p FROM projected WHERE projection = name;
    SET LOCAL ROLE projector;
    EXECUTE format('SELECT stream.create_projection(%L, %L, %L::regclass, start => %L, %s)',
        name, p.stream, p.target, start, p.creation);
    RESET ROLE;
    DELETE FROM projection_begun WHERE projection = name;
    INSERT INTO projection_begun SELECT name, * FROM applied(name);
END
$$;

-- Drops a projection and empties its target, so that the recomputation holds again.
CREATE FUNCTION end_projection(name text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM stream.drop_projection(name);
    EXECUTE format('DELETE FROM %s', (SELECT target FROM projected WHERE projection = name));
END
$$;

-- What is missing in a target or too much, as one snapshot shows target, offsets and log.
CREATE FUNCTION differences(name text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    p projected;
BEGIN
    SELECT * INTO STRICT p FROM projected WHERE projection = name;
    RETURN QUERY EXECUTE format($q$
        WITH log AS MATERIALIZED (
            SELECT r.* FROM streams.%I r JOIN applied(%L) USING ("partition") JOIN projection_begun b USING ("partition")
            WHERE b.projection = %L AND record_offset >= begin_offset AND record_offset < committed_offset),
        want AS MATERIALIZED (%s), have AS MATERIALIZED (%s), named AS (SELECT 1 AS one)
        SELECT what || ': ' || "row" FROM (
            SELECT 'missing' AS what, w::text AS "row" FROM (TABLE want EXCEPT ALL TABLE have) w
            UNION ALL
            SELECT 'too much', h::text FROM (TABLE have EXCEPT ALL TABLE want) h) d
        WHERE EXISTS (SELECT FROM stream_internal.projections WHERE projection = %L)
        ORDER BY 1 LIMIT 20 $q$, p.stream, name, name, p.want, p.have, name);
END
$$;

SET ROLE projector;
CREATE TABLE extremes (key text, "partition" int, last bigint, first bigint, counts boolean, plain boolean, bits int, PRIMARY KEY (key, "partition"));
CREATE TABLE totals (key text PRIMARY KEY, bytes bigint, records bigint, keyed bigint);
CREATE TABLE newest (key text, "partition" int, last bigint, record text, first bigint, origin text, PRIMARY KEY (key, "partition"));
CREATE TABLE spans (publisher text, "partition" int, offsets int8multirange, keys text[], PRIMARY KEY (publisher, "partition"));
-- nothing keeps these from having a record twice
CREATE TABLE step ("partition" int, record_offset bigint, record text);
CREATE TABLE echo ("partition" int, record_offset bigint, "position" stream.record_position);
CREATE TABLE echoes (origin text PRIMARY KEY, records bigint, last bigint);
CREATE TABLE picked ("partition" int, record_offset bigint, quotient int);
CREATE TABLE stubborn ("partition" int, record_offset bigint, quotient int);
CREATE TABLE divisor (n int);
INSERT INTO divisor VALUES (0);
CREATE TABLE "Strad""dled ü" ("Key ""x""" text PRIMARY KEY, "SUM" bigint, "group" bigint);
RESET ROLE;

INSERT INTO projected VALUES
('extremes', 'stress', 'extremes',
    $$workers => 3, merge => '{"last": "max", "first": "min", "counts": "or", "plain": "and", "bits": "bit_or"}',
    query => 'SELECT coalesce(key, '''') AS key, "partition", record_offset AS last, record_offset AS first,
        coalesce(value ? ''c'', false) AS counts, coalesce(NOT value ? ''pad'', true) AS plain, 1 << (record_offset % 20)::int AS bits
        FROM batch'$$,
    $$SELECT coalesce(key, '') AS key, "partition", max(record_offset) AS last, min(record_offset) AS first,
        bool_or(coalesce(value ? 'c', false)), bool_and(coalesce(NOT value ? 'pad', true)), bit_or(1 << (record_offset % 20)::int)
        FROM log GROUP BY 1, 2$$,
    'SELECT key, "partition", last, first, counts, plain, bits FROM extremes'),
('totals', 'stress', 'totals',
    $$merge => '{"bytes": "sum", "records": "count", "keyed": "count"}',
    query => 'SELECT coalesce(key, '''') AS key, length(value->>''pad'') AS bytes, 1 AS records, key AS keyed FROM batch'$$,
    $$SELECT coalesce(key, ''), sum(length(value->>'pad')), count(*), count(key) FROM log GROUP BY 1$$,
    'SELECT key, bytes, records, keyed FROM totals'),
('newest', 'stress', 'newest',
    $$workers => 2, merge => '{"last": "max", "first": "min", "record": "latest by last", "origin": "earliest by first"}',
    query => 'SELECT coalesce(key, '''') AS key, "partition", record_offset AS last, coalesce(value, headers)->>''i'' AS record,
        record_offset AS first, coalesce(value, headers)->>''i'' AS origin FROM batch'$$,
    $$SELECT coalesce(key, '') AS key, "partition", max(record_offset), (array_agg(coalesce(value, headers)->>'i' ORDER BY record_offset DESC))[1],
        min(record_offset), (array_agg(coalesce(value, headers)->>'i' ORDER BY record_offset))[1] FROM log GROUP BY 1, 2$$,
    'SELECT key, "partition", last, record, first, origin FROM newest'),
('spans', 'Stress "2"', 'spans',
    $$merge => '{"offsets": "union", "keys": "union"}',
    query => 'SELECT split_part(coalesce(value, headers)->>''i'', ''.'', 1) AS publisher, "partition",
        range_agg(int8range(record_offset, record_offset + 1)) AS offsets, array_agg(coalesce(key, '''')) AS keys FROM batch GROUP BY 1, 2'$$,
    $$SELECT split_part(coalesce(value, headers)->>'i', '.', 1), "partition", range_agg(int8range(record_offset, record_offset + 1)),
        array_agg(DISTINCT coalesce(key, '') ORDER BY coalesce(key, '')) FROM log GROUP BY 1, 2$$,
    'SELECT publisher, "partition", offsets, (SELECT array_agg(k ORDER BY k) FROM unnest(keys) k) FROM spans'),
('step', 'stress', 'step',
    $$workers => 3, statement => 'INSERT INTO step SELECT "partition", record_offset, coalesce(value, headers)->>''i'' FROM batch'$$,
    $$SELECT "partition", record_offset, coalesce(value, headers)->>'i' FROM log$$,
    'TABLE step'),
('echo', 'stress', 'echo',
    $$workers => 2, statement => 'INSERT INTO echo SELECT "partition", record_offset,
        stream.publish(''echoed'', key, jsonb_build_object(''of'', "partition" || '':'' || record_offset)) FROM batch'$$,
    'SELECT "partition", record_offset FROM log',
    'SELECT "partition", record_offset FROM echo'),
('echoes', 'echoed', 'echoes',
    $$workers => 2, merge => '{"records": "sum", "last": "max"}',
    query => 'SELECT split_part(value->>''of'', '':'', 1) AS origin, count(*) AS records, max(split_part(value->>''of'', '':'', 2)::bigint) AS last
        FROM batch GROUP BY 1'$$,
    $$SELECT split_part(value->>'of', ':', 1), count(*)::numeric, max(split_part(value->>'of', ':', 2)::bigint) FROM log GROUP BY 1$$,
    'SELECT origin, records::numeric, last FROM echoes'),
-- fails for some records, as long as the divisor is zero
('picked', 'stress', 'picked',
    $$workers => 3, on_error => 'dead_letter', statement => 'INSERT INTO picked SELECT "partition", record_offset,
        1 / CASE WHEN record_offset % 311 = 0 THEN (SELECT n FROM divisor) ELSE 1 END FROM batch'$$,
    $$SELECT "partition", record_offset, true FROM log$$,
    $$SELECT "partition", record_offset, true FROM picked
        UNION ALL SELECT "partition", record_offset, record_offset % 311 = 0 AND sqlstate = '22012' FROM stream_internal.dead_letters
            JOIN stream_internal.projections ON projection_id = group_id WHERE projection = 'picked'$$),
-- is skipped over such records
('stubborn', 'Stress "2"', 'stubborn',
    $$statement => 'INSERT INTO stubborn SELECT "partition", record_offset, 1 / (record_offset % 173)::int FROM batch'$$,
    $$SELECT "partition", record_offset, record_offset % 173 = 0 FROM log$$,
    $$SELECT "partition", record_offset, false FROM stubborn
        UNION ALL SELECT "partition", record_offset, sqlstate IS NULL FROM stream_internal.dead_letters
            JOIN stream_internal.projections ON projection_id = group_id WHERE projection = 'stubborn'$$),
('Straddled "ü"', 'straddled', '"Strad""dled ü"',
    $$merge => '{"SUM": "sum", "group": "max"}',
    query => 'SELECT key AS "Key ""x""", 1 AS "SUM", record_offset AS "group" FROM batch'$$,
    $$SELECT key, count(*)::numeric, max(record_offset) FROM log GROUP BY 1$$,
    'SELECT "Key ""x""", "SUM"::numeric, "group" FROM "Strad""dled ü"');
-- Passes the records that projections stop at.
CREATE FUNCTION skip_stopped() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    e record;
BEGIN
    FOR e IN SELECT projection, stream.record_position("partition", record_offset) AS pos
             FROM stream_internal.projection_errors JOIN stream_internal.projections USING (projection_id) WHERE stopped LOOP
        BEGIN
            PERFORM stream.skip_projection_record(e.projection, e.pos, 'poison');
        -- dropped; passed; begun again at the log's end
        EXCEPTION WHEN undefined_object OR object_not_in_prerequisite_state OR invalid_parameter_value THEN NULL;
        END;
    END LOOP;
END
$$;
-- what it has published stays
UPDATE projected SET recreated = false WHERE projection = 'echo';
SELECT begin_projection(projection) FROM projected ORDER BY projection;
