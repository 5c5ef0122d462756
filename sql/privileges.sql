-- Privileges: those on the foreign table rule everything.
\set SHOW_CONTEXT never
CREATE ROLE regress_stream_owner;
CREATE ROLE regress_stream_reader;
CREATE ROLE regress_stream_writer;
CREATE ROLE regress_stream_nobody;
CREATE ROLE regress_stream_monitor IN ROLE pg_monitor;
CREATE ROLE regress_stream_group;
CREATE ROLE regress_stream_member IN ROLE regress_stream_group;

-- Creating needs CREATE on schema streams.
SET ROLE regress_stream_owner;
SELECT stream.create_stream('s', 2); \echo :SQLSTATE
RESET ROLE;
SELECT * FROM left_over();
GRANT CREATE ON SCHEMA streams TO regress_stream_owner;
SET ROLE regress_stream_owner;
SELECT stream.create_stream('s', 2);
SELECT stream.publish('s', 'owner', '1');
SELECT key, value FROM stream.read('s', 0);
SELECT stream.alter_stream('s', compression => 'none');
CALL stream.roll_segment('s');
SELECT * FROM stream.verify_log('s');
SELECT count(*) FROM streams.s;
INSERT INTO streams.s (key, value) VALUES ('owner', '2');
RESET ROLE;
-- the log's tables belong to the extension's owner, the foreign table to the creator
SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = 'streams.s'::regclass;
SELECT count(*) > 20 AS many, bool_and(relowner = (SELECT extowner FROM pg_extension WHERE extname = 'stream'))
FROM pg_class WHERE relnamespace = 'stream_internal'::regnamespace;

-- Everything, by everyone.
GRANT SELECT ON streams.s TO regress_stream_reader;
GRANT INSERT ON streams.s TO regress_stream_writer;
CREATE TABLE attempts (n serial, command text);
INSERT INTO attempts (command) VALUES
	($$SELECT stream.publish('s', 'k', '1'::jsonb)$$),
	($$SELECT stream.publish('s', 'k', '1'::json)$$),
	($$SELECT stream.publish('s', 'k', '1'::text)$$),
	($$SELECT stream.publish_tombstone('s', 'k')$$),
	($$SELECT stream.publish_batch('s', '{k}', '{1}')$$),
	($$SELECT stream.publish_bytes('s', 'k', '1')$$),
	($$SELECT stream.publish_bytes_batch('s', '{k}', '{1}')$$),
	($$INSERT INTO streams.s (key, value) VALUES ('k', '1')$$),
	($$INSERT INTO streams.s (key, value) VALUES ('k', '1') RETURNING key$$),
	($$SELECT * FROM stream.read('s', 0)$$),
	($$SELECT * FROM stream.read_bytes('s', 0)$$),
	($$SELECT stream.offset_at('s', 0, now())$$),
	($$SELECT stream.wait_for_offset('s', '0:0', '0')$$),
	($$SELECT * FROM stream.verify_log('s')$$),
	($$SELECT * FROM streams.s$$),
	($$SELECT stream.alter_stream('s', compression => 'none')$$),
	($$SELECT stream.drop_stream('s')$$),
	($$DROP FOREIGN TABLE streams.s$$),
	($$SELECT stream.create_stream('mine')$$),
	($$SELECT * FROM stream_internal.streams$$),
	($$SELECT * FROM stream_internal.stream_status()$$),
	($$SELECT nextval('stream_internal.stream_id_seq')$$),
	($$UPDATE stream_internal.segments SET sealed_at = NULL$$),
	($$CREATE TABLE stream_internal.mine (a int)$$),
	($$CREATE FUNCTION stream.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'$$);
GRANT SELECT ON attempts TO PUBLIC;
SET ROLE regress_stream_nobody;
SELECT n, command, failure(command) FROM attempts ORDER BY n;
CALL stream.roll_segment('s'); \echo :SQLSTATE
SET ROLE regress_stream_reader;
SELECT n, command, failure(command) FROM attempts ORDER BY n;
CALL stream.roll_segment('s'); \echo :SQLSTATE
SET ROLE regress_stream_writer;
SELECT n, command, failure(command) FROM attempts ORDER BY n;
CALL stream.roll_segment('s'); \echo :SQLSTATE
RESET ROLE;
-- the writer's are there, nobody else's
SELECT key, count(*) FROM records('s') GROUP BY 1 ORDER BY 1;
-- a right on some columns is none to publish or read
GRANT SELECT (key), INSERT (key, value) ON streams.s TO regress_stream_nobody;
SET ROLE regress_stream_nobody;
SELECT stream.publish('s', 'k', '1'); \echo :SQLSTATE
SELECT * FROM stream.read('s', 0); \echo :SQLSTATE
SELECT value FROM streams.s; \echo :SQLSTATE
RESET ROLE;
REVOKE SELECT (key), INSERT (key, value) ON streams.s FROM regress_stream_nobody;
-- the segments, by name
SELECT table_name AS segment FROM stream.segment_status WHERE segment_no = 1 \gset
SET ROLE regress_stream_owner;
\set VERBOSITY sqlstate
SELECT * FROM :segment;
DELETE FROM :segment;
DROP TABLE :segment;
\set VERBOSITY default
RESET ROLE;

-- Views show what one may read, all of it to pg_monitor.
SELECT stream.create_stream('hidden');
BEGIN;
SELECT stream.publish('s', 'k', '1', "partition" => 0) IS NOT NULL AS published, stream.publish('hidden', 'k', '1') IS NOT NULL AS published;
CREATE VIEW shown AS SELECT current_user,
	(SELECT array_agg(stream ORDER BY stream) FROM stream.stream_status) AS stream_status,
	(SELECT array_agg(DISTINCT stream) FROM stream.partition_status) AS partition_status,
	(SELECT array_agg(DISTINCT stream) FROM stream.segment_status) AS segment_status,
	(SELECT array_agg(DISTINCT stream) FROM stream.open_publishers) AS open_publishers,
	(SELECT count(*) FROM stream.progress) AS progress,
	(SELECT count(*) > 0 FROM stream.memory_status) AS memory_status;
GRANT SELECT ON shown TO PUBLIC;
SELECT * FROM shown;
SET ROLE regress_stream_nobody;
SELECT * FROM shown;
SET ROLE regress_stream_writer;
SELECT * FROM shown;
SET ROLE regress_stream_reader;
SELECT * FROM shown;
SET ROLE regress_stream_owner;
SELECT * FROM shown;
SET ROLE regress_stream_monitor;
SELECT * FROM shown;
-- it sees the numbers, not the records
SELECT failure($$ SELECT * FROM stream.read('hidden', 0) $$);
SELECT failure($$ SELECT * FROM stream.verify_log('hidden') $$);
RESET ROLE;
ROLLBACK;

-- Membership.
GRANT SELECT, INSERT ON streams.s TO regress_stream_group;
SET ROLE regress_stream_member;
SELECT stream.publish('s', 'member', '1') IS NOT NULL AS published;
SELECT count(*) FROM streams.s WHERE key = 'member';
RESET ROLE;
REVOKE regress_stream_group FROM regress_stream_member;
SET ROLE regress_stream_member;
SELECT stream.publish('s', 'member', '1'); \echo :SQLSTATE
SELECT * FROM stream.read('s', 0); \echo :SQLSTATE
RESET ROLE;
-- ownership by membership
GRANT regress_stream_owner TO regress_stream_member;
SET ROLE regress_stream_member;
SELECT stream.alter_stream('s', compression => 'lz4');
CALL stream.roll_segment('s');
RESET ROLE;
REVOKE regress_stream_owner FROM regress_stream_member;
SET ROLE regress_stream_member;
CALL stream.roll_segment('s'); \echo :SQLSTATE
RESET ROLE;

-- Revoked within a session, even within a transaction that has published.
BEGIN;
SET LOCAL ROLE regress_stream_writer;
SELECT stream.publish('s', 'revoked', '"before"') IS NOT NULL AS published;
RESET ROLE;
REVOKE INSERT ON streams.s FROM regress_stream_writer;
SET LOCAL ROLE regress_stream_writer;
SAVEPOINT a;
SELECT stream.publish('s', 'revoked', '"after"'); \echo :SQLSTATE
ROLLBACK TO a;
SELECT stream.publish_batch('s', '{revoked}', '{1}'); \echo :SQLSTATE
ROLLBACK TO a;
INSERT INTO streams.s (key, value) VALUES ('revoked', '1'); \echo :SQLSTATE
ROLLBACK TO a;
COMMIT;
SELECT value FROM records('s') WHERE key = 'revoked';
GRANT INSERT ON streams.s TO regress_stream_writer;
-- another user in the same transaction
BEGIN;
SELECT stream.publish('s', 'other user', '"before"') IS NOT NULL AS published;
SET LOCAL ROLE regress_stream_reader;
SELECT stream.publish('s', 'other user', '"after"'); \echo :SQLSTATE
ROLLBACK;
-- on the schemas
REVOKE USAGE ON SCHEMA streams FROM PUBLIC;
SET ROLE regress_stream_writer;
SELECT stream.publish('s', 'k', '1'); \echo :SQLSTATE
INSERT INTO streams.s (key, value) VALUES ('k', '1'); \echo :SQLSTATE
RESET ROLE;
GRANT USAGE ON SCHEMA streams TO PUBLIC;

-- SECURITY DEFINER lends a right for the call, and no longer.
CREATE FUNCTION publish_as_definer(v jsonb) RETURNS boolean LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	AS $$ SELECT stream.publish('s', 'definer', v) IS NOT NULL $$;
ALTER FUNCTION publish_as_definer(jsonb) OWNER TO regress_stream_writer;
BEGIN;
SET LOCAL ROLE regress_stream_nobody;
SELECT publish_as_definer('1');
SAVEPOINT a;
SELECT stream.publish('s', 'definer', '2'); \echo :SQLSTATE
ROLLBACK TO a;
SELECT publish_as_definer(to_jsonb(g)), failure($$ SELECT stream.publish('s', 'definer', '3') $$) FROM generate_series(4, 5) g;
COMMIT;
SELECT value FROM records('s') WHERE key = 'definer';
DROP FUNCTION publish_as_definer;
-- so does a view's owner
CREATE VIEW through AS SELECT key, value FROM streams.s;
ALTER VIEW through OWNER TO regress_stream_owner;
GRANT SELECT, INSERT ON through TO regress_stream_nobody;
SET ROLE regress_stream_nobody;
SELECT count(*) FROM through WHERE key = 'definer';
INSERT INTO through VALUES ('through', '1');
SELECT * FROM streams.s; \echo :SQLSTATE
RESET ROLE;
SELECT count(*) FROM records('s') WHERE key = 'through';
DROP VIEW through;

-- A new owner, and no grants left for the old one.
ALTER FOREIGN TABLE streams.s OWNER TO regress_stream_group;
SET ROLE regress_stream_owner;
SELECT stream.publish('s', 'k', '1'); \echo :SQLSTATE
SELECT stream.drop_stream('s'); \echo :SQLSTATE
SELECT stream.create_stream('s'); \echo :SQLSTATE
RESET ROLE;
SET ROLE regress_stream_group;
SELECT stream.publish('s', 'k', '1') IS NOT NULL AS published;
CALL stream.roll_segment('s');
RESET ROLE;
-- what goes with its owner
SET ROLE regress_stream_owner;
SELECT stream.create_stream('owned', 3);
SELECT stream.publish('owned', 'k', '1') IS NOT NULL AS published;
RESET ROLE;
DROP OWNED BY regress_stream_owner;
SELECT stream FROM stream.stream_status ORDER BY 1;
REASSIGN OWNED BY regress_stream_group TO regress_stream_nobody;
SET ROLE regress_stream_nobody;
SELECT stream.drop_stream('s');
RESET ROLE;
SELECT stream.drop_stream('hidden');
SELECT * FROM left_over();

-- A right to create does not reach into other schemas, nor is a name of the path used.
GRANT CREATE ON SCHEMA streams TO regress_stream_nobody;
CREATE SCHEMA regress_stream_trap AUTHORIZATION regress_stream_nobody;
SET ROLE regress_stream_nobody;
CREATE DOMAIN regress_stream_trap.jsonb AS text;
CREATE DOMAIN regress_stream_trap.int4 AS text;
SET search_path = regress_stream_trap, pg_catalog;
SELECT stream.create_stream('trap');
RESET search_path;
SELECT attname, atttypid::regtype FROM pg_attribute WHERE attrelid = 'streams.trap'::regclass AND attnum > 0 ORDER BY attnum;
SELECT current_user;
SELECT stream.drop_stream('trap');
RESET ROLE;

DROP TABLE attempts;
DROP OWNED BY regress_stream_owner, regress_stream_reader, regress_stream_writer, regress_stream_nobody, regress_stream_group, regress_stream_member CASCADE;
DROP ROLE regress_stream_owner, regress_stream_reader, regress_stream_writer, regress_stream_nobody, regress_stream_monitor, regress_stream_group, regress_stream_member;
