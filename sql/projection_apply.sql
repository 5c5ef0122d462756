-- Projections: applied by background workers, seen through wait_for.
\set SHOW_CONTEXT never
SELECT stream.create_stream('s', 3);
CREATE TABLE totals (k text PRIMARY KEY, last_seq bigint, events bigint);
SELECT stream.create_projection('totals', 's', 'totals',
	query => $$ SELECT key AS k, max((value->>'seq')::bigint) AS last_seq, count(*) AS events FROM batch GROUP BY 1 $$,
	merge => '{"last_seq": "max", "events": "sum"}');

-- nothing published: nothing to wait for
SELECT stream.wait_for('totals', timeout => '30 s');
SELECT * FROM stream.freshness('totals', 'a');

SELECT count(stream.publish('s', 'k' || i % 7, jsonb_build_object('seq', i))) FROM generate_series(1, 5000) i;
SELECT stream.wait_for('totals', timeout => '30 s');
SELECT * FROM totals ORDER BY k;
SELECT * FROM stream.freshness('totals', 'k1');

-- a position that a call has returned, in a transaction of its own
SELECT stream.publish('s', 'k1', '{"seq": 6000}') AS position \gset
SELECT stream.wait_for('totals', ARRAY[:'position'::stream.record_position], '30 s');
SELECT * FROM totals WHERE k = 'k1';

-- offsets that were rolled back are passed, so that lag returns to zero
BEGIN;
SELECT count(stream.publish('s', 'k' || i % 7, jsonb_build_object('seq', i))) FROM generate_series(1, 50) i;
ROLLBACK;
SELECT stream.wait_for('totals', timeout => '30 s');
SELECT * FROM stream.freshness('totals', 'k1');
SELECT sum(events) FROM totals;

-- asked by the transaction that has published there
BEGIN;
SELECT count(stream.publish('s', 'k1', '{"seq": 6001}'));
SAVEPOINT a;
SELECT stream.wait_for('totals');
ROLLBACK TO a;
SELECT stream.wait_for('totals', ARRAY[stream.record_position(stream.partition_of(:'position'), 100000)]);
ROLLBACK TO a;
-- what others have published can be waited for
SELECT stream.wait_for('totals', ARRAY[:'position'::stream.record_position], '30 s');
COMMIT;
SELECT stream.wait_for('totals', '{}');

-- what it refuses
SELECT stream.wait_for('nobody');
SELECT stream.wait_for(NULL);
SELECT stream.wait_for('totals', timeout => NULL);
SELECT stream.wait_for('totals', timeout => '-1 s');
SELECT stream.wait_for('totals', ARRAY[NULL]::stream.record_position[]);
SELECT stream.wait_for('totals', '{3:0}');
SELECT stream.wait_for('totals', '{0:1000000}', '1 ms');
SELECT stream.freshness('totals', NULL);
SELECT stream.freshness('nobody', 'a');

-- a statement, which may publish to another stream, which has a projection itself
SELECT stream.create_stream('copies', 2);
CREATE TABLE seen ("partition" int, record_offset bigint, key text, value jsonb, headers jsonb, PRIMARY KEY ("partition", record_offset));
SELECT stream.create_projection('copy', 's', statement =>
	$$ SELECT stream.publish('copies', key, value, jsonb_build_object('from', record_offset)) FROM batch WHERE key = 'new' $$, start => 'latest');
SELECT stream.create_projection('seen', 'copies', statement =>
	$$ INSERT INTO seen SELECT "partition", record_offset, key, value, headers FROM batch $$);
SELECT count(stream.publish('s', 'new', to_jsonb(i))) FROM generate_series(1, 3) i;
SELECT count(stream.publish('s', 'old', to_jsonb(i))) FROM generate_series(1, 3) i;
SELECT stream.wait_for('copy', timeout => '30 s');
SELECT stream.wait_for('seen', timeout => '30 s');
SELECT key, value FROM seen ORDER BY record_offset;

-- tombstones, keys that are null, and values that are bytes
SELECT stream.create_stream('bytes', 1, 'bytea');
CREATE TABLE lengths (record_offset bigint, key text, length int);
SELECT stream.create_projection('lengths', 'bytes', statement => 'INSERT INTO lengths SELECT record_offset, key, length(value) FROM batch');
SELECT stream.publish_bytes('bytes', NULL, '\x010203');
SELECT stream.publish_tombstone('bytes', 'gone');
SELECT stream.wait_for('lengths', timeout => '30 s');
SELECT * FROM lengths ORDER BY record_offset;

--
-- It runs as its owner, with nothing of the worker's rights, and what it does
-- must be done when the statement ends.
--
CREATE ROLE regress_stream_projector;
GRANT CREATE ON SCHEMA streams TO regress_stream_projector;
CREATE SCHEMA own AUTHORIZATION regress_stream_projector;
SET ROLE regress_stream_projector;
SET search_path = own;
SELECT stream.create_stream('mine', 1);
CREATE TABLE ran (what text, as_user name);
CREATE TABLE target (k text PRIMARY KEY, n bigint);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO ran VALUES (TG_NAME, current_user);
	RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER deferred_trigger AFTER INSERT ON target DEFERRABLE INITIALLY DEFERRED
	FOR EACH ROW EXECUTE FUNCTION note();
CREATE TRIGGER plain_trigger AFTER INSERT ON target FOR EACH ROW EXECUTE FUNCTION note();
SELECT stream.create_projection('mine', 'mine', 'target',
	query => $$ SELECT key AS k, count(*) AS n FROM batch GROUP BY 1 $$, merge => '{"n": "sum"}');
SELECT stream.publish('mine', 'a', '1');
SELECT stream.wait_for('mine', timeout => '30 s');
SELECT * FROM target;
SELECT * FROM ran ORDER BY what;
-- others need the right to read or to publish
RESET search_path;
RESET ROLE;
CREATE ROLE regress_stream_other;
SET ROLE regress_stream_other;
SELECT stream.wait_for('mine');
SELECT stream.freshness('mine', 'a');
RESET ROLE;
GRANT INSERT ON streams.mine TO regress_stream_other;
SET ROLE regress_stream_other;
SELECT stream.wait_for('mine', timeout => '30 s');
RESET ROLE;

-- clean up
DROP OWNED BY regress_stream_projector CASCADE;
DROP ROLE regress_stream_projector;
DROP ROLE regress_stream_other;
SELECT stream.drop_stream('s');
SELECT stream.drop_stream('copies');
SELECT stream.drop_stream('bytes');
SELECT stream.wait_for('totals');
SELECT count(*) FROM stream_internal.projections;
DROP TABLE totals, seen, lengths;
