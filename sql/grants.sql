-- GRANT and REVOKE on a stream's foreign table, whichever way they come, rule the table and
-- every function.  (What each function wants is in privileges.sql.)
\set SHOW_CONTEXT never
CREATE ROLE regress_stream_reader;
CREATE ROLE regress_stream_writer;
CREATE ROLE regress_stream_columns;
CREATE ROLE regress_stream_granter;
CREATE ROLE regress_stream_creator;
GRANT CREATE ON SCHEMA streams TO regress_stream_creator;

-- What the current user may do.
CREATE FUNCTION rights(stream text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text := '';
	attempt text[];
BEGIN
	FOREACH attempt SLICE 1 IN ARRAY ARRAY[
		['read', format('SELECT count(*) FROM stream.read(%L, 0)', stream)],
		['offset_at', format('SELECT stream.offset_at(%L, 0, now())', stream)],
		['wait', format('SELECT stream.wait_for_offset(%L, ''0:0'', ''0 s'')', stream)],
		['verify', format('SELECT count(*) FROM stream.verify_log(%L)', stream)],
		['select', format('SELECT count(value) FROM streams.%I', stream)],
		['count', format('SELECT count(*) FROM streams.%I', stream)],
		['publish', format('SELECT stream.publish(%L, ''k'', ''1'')', stream)],
		['batch', format('SELECT count(*) FROM stream.publish_batch(%L, ''{k}'', ''{1}'')', stream)],
		['tombstone', format('SELECT stream.publish_tombstone(%L, ''k'')', stream)],
		['insert', format('INSERT INTO streams.%I (key, value) VALUES (''k'', ''1'')', stream)],
		['returning', format('INSERT INTO streams.%I (key, value) VALUES (''k'', ''1'') RETURNING record_offset', stream)],
		['status', format('SELECT 1 / (SELECT count(*) FROM stream.stream_status WHERE stream = %L)', stream)],
		['alter', format('SELECT stream.alter_stream(%L, compression => ''lz4'')', stream)],
		['drop', format('DO $d$ BEGIN PERFORM stream.drop_stream(%L); RAISE division_by_zero; END $d$', stream)]]
	LOOP
		BEGIN
			EXECUTE attempt[2];
			result := concat_ws(' ', nullif(result, ''), attempt[1]);
		EXCEPTION
			WHEN insufficient_privilege THEN
				NULL;
			WHEN division_by_zero THEN
				-- nothing in the view, or the right to drop
				IF attempt[1] = 'drop' THEN
					result := concat_ws(' ', nullif(result, ''), attempt[1]);
				END IF;
		END;
	END LOOP;
	RETURN result;
END
$$;

-- Default privileges apply when a stream is created, to its table and to nothing inside.
ALTER DEFAULT PRIVILEGES IN SCHEMA streams GRANT SELECT ON TABLES TO regress_stream_reader;
ALTER DEFAULT PRIVILEGES IN SCHEMA streams GRANT INSERT ON TABLES TO regress_stream_writer;
ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO PUBLIC;
ALTER DEFAULT PRIVILEGES GRANT ALL ON SEQUENCES TO PUBLIC;
SELECT stream.create_stream('s', 2);
SELECT count(stream.publish('s', 'k', to_jsonb(g), NULL, 0)) FROM generate_series(1, 5) g;
CALL stream.roll_segment('s');
ALTER DEFAULT PRIVILEGES REVOKE ALL ON TABLES FROM PUBLIC;
ALTER DEFAULT PRIVILEGES REVOKE ALL ON SEQUENCES FROM PUBLIC;
SELECT has_table_privilege('public', 'streams.s', 'SELECT') AS public_may_select;
SELECT c.relkind, count(*), count(*) FILTER (WHERE has_schema_privilege('regress_stream_reader', relnamespace, 'USAGE')) AS reachable
FROM pg_class c WHERE relnamespace = 'stream_internal'::regnamespace AND relname ~ '^s\d' AND relkind IN ('r', 'S') GROUP BY 1 ORDER BY 1;
REVOKE ALL ON streams.s FROM PUBLIC;
SET ROLE regress_stream_reader;
SELECT rights('s');
SET ROLE regress_stream_writer;
SELECT rights('s');
SET ROLE regress_stream_columns;
SELECT rights('s');
-- reached neither by name, nor by the number
SELECT failure(command) FROM unnest(ARRAY['SELECT * FROM stream_internal.streams', 'SELECT * FROM stream_internal.segments']) command;
RESET ROLE;
SELECT failure(format('SET ROLE regress_stream_reader; SELECT * FROM %s', table_name)) ~ '^42501: permission denied for schema stream_internal' AS refused
FROM (SELECT 'stream_internal.' || split_part(table_name, '.', 2) AS table_name FROM stream.segment_status WHERE stream = 's') t;
RESET ROLE;
-- of a creator who is not the extension's owner
ALTER DEFAULT PRIVILEGES FOR ROLE regress_stream_creator IN SCHEMA streams GRANT SELECT ON TABLES TO regress_stream_columns;
SET ROLE regress_stream_creator;
SELECT stream.create_stream('theirs');
RESET ROLE;
SELECT stream.publish('theirs', 'k', '1');
SET ROLE regress_stream_columns;
SELECT rights('theirs');
SET ROLE regress_stream_reader;
SELECT rights('theirs');
RESET ROLE;
ALTER DEFAULT PRIVILEGES IN SCHEMA streams REVOKE SELECT ON TABLES FROM regress_stream_reader;
ALTER DEFAULT PRIVILEGES IN SCHEMA streams REVOKE INSERT ON TABLES FROM regress_stream_writer;
ALTER DEFAULT PRIVILEGES FOR ROLE regress_stream_creator IN SCHEMA streams REVOKE SELECT ON TABLES FROM regress_stream_columns;

-- One who may only insert sees nothing of what is there.
SET ROLE regress_stream_writer;
INSERT INTO streams.s (key, value) VALUES ('k', '1') RETURNING record_offset; \echo :SQLSTATE
INSERT INTO streams.s (key, value) SELECT key, value FROM streams.s; \echo :SQLSTATE
COPY streams.s (key, value) FROM stdin;
k	2
\.
COPY streams.s (key, value) TO stdout; \echo :SQLSTATE
EXPLAIN SELECT * FROM streams.s; \echo :SQLSTATE
SET ROLE regress_stream_reader;
SELECT count(*) > 0 AS copied FROM streams.s WHERE value = '2';
RESET ROLE;

-- All tables of the schema, in one command.
GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA streams TO regress_stream_columns;
SET ROLE regress_stream_columns;
SELECT rights('s');
SELECT rights('theirs');
RESET ROLE;
REVOKE ALL ON ALL TABLES IN SCHEMA streams FROM regress_stream_columns;
SET ROLE regress_stream_columns;
SELECT rights('s');
RESET ROLE;

-- Rights on columns hold for SELECT, INSERT and COPY; functions want the whole table's.
GRANT SELECT ("partition", record_offset, key), INSERT (key, value) ON streams.s TO regress_stream_columns;
SET ROLE regress_stream_columns;
SELECT rights('s');
SELECT count(*) > 5 AS counts FROM streams.s;
SELECT "partition", record_offset, key FROM streams.s WHERE record_offset = 1 AND "partition" = 0;
SELECT failure(command) FROM unnest(ARRAY[
	'SELECT value FROM streams.s',
	'SELECT * FROM streams.s',
	'SELECT s FROM streams.s s',
	'SELECT key FROM streams.s WHERE published_at > now()',
	'SELECT key FROM streams.s ORDER BY value',
	'SELECT count(headers) FROM streams.s',
	'INSERT INTO streams.s (key, value) VALUES (''k'', ''1'')',
	'INSERT INTO streams.s (key, value) VALUES (''k'', ''1'') RETURNING record_offset',
	'INSERT INTO streams.s (key, value) VALUES (''k'', ''1'') RETURNING published_at',
	'INSERT INTO streams.s (key, value, headers) VALUES (''k'', ''1'', ''{}'')',
	'INSERT INTO streams.s ("partition", key, value) VALUES (0, ''k'', ''1'')',
	'SELECT * FROM stream.read(''s'', 0)',
	'SELECT stream.publish(''s'', ''k'', ''1'')']) command;
COPY streams.s (key, value) FROM stdin;
by columns	3
\.
COPY (SELECT key FROM streams.s WHERE key = 'by columns') TO stdout;
RESET ROLE;
REVOKE ALL ON streams.s FROM regress_stream_columns;

-- Handed on, and taken back with all that came of it.
GRANT SELECT ON streams.s TO regress_stream_granter WITH GRANT OPTION;
SET ROLE regress_stream_granter;
GRANT SELECT ON streams.s TO regress_stream_columns;
\set VERBOSITY terse
GRANT INSERT ON streams.s TO regress_stream_columns; \echo :SQLSTATE
\set VERBOSITY default
SET ROLE regress_stream_columns;
SELECT rights('s');
RESET ROLE;
\set VERBOSITY terse
REVOKE SELECT ON streams.s FROM regress_stream_granter; \echo :SQLSTATE
\set VERBOSITY default
REVOKE SELECT ON streams.s FROM regress_stream_granter CASCADE;
SET ROLE regress_stream_columns;
SELECT rights('s');
RESET ROLE;
-- through a role that inherits, and one that does not
CREATE ROLE regress_stream_group;
CREATE ROLE regress_stream_heir IN ROLE regress_stream_group;
CREATE ROLE regress_stream_stranger NOINHERIT IN ROLE regress_stream_group;
GRANT SELECT ON streams.s TO regress_stream_group;
SET ROLE regress_stream_heir;
SELECT rights('s');
SET ROLE regress_stream_stranger;
SELECT rights('s');
SET ROLE regress_stream_group;
SELECT rights('s');
RESET ROLE;
DROP OWNED BY regress_stream_group;
SET ROLE regress_stream_heir;
SELECT rights('s');
RESET ROLE;
-- to everybody
GRANT INSERT ON streams.s TO PUBLIC;
SET ROLE regress_stream_stranger;
SELECT rights('s');
RESET ROLE;
REVOKE INSERT ON streams.s FROM PUBLIC;
-- the rights of others than SELECT and INSERT are worth nothing
GRANT UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER ON streams.s TO regress_stream_columns;
SET ROLE regress_stream_columns;
SELECT rights('s');
SELECT failure(command) FROM unnest(ARRAY['UPDATE streams.s SET key = ''x''', 'DELETE FROM streams.s', 'TRUNCATE streams.s', 'LOCK TABLE streams.s']) command;
RESET ROLE;
REVOKE ALL ON streams.s FROM regress_stream_columns;
-- an owner who has taken his own
ALTER FOREIGN TABLE streams.theirs OWNER TO regress_stream_creator;
SET ROLE regress_stream_creator;
SELECT rights('theirs');
REVOKE ALL ON streams.theirs FROM regress_stream_creator;
SELECT rights('theirs');
RESET ROLE;

-- Views: those of their owner, or of the caller where the view says so.
CREATE VIEW plain AS SELECT * FROM streams.s WHERE "partition" = 0;
CREATE VIEW barrier WITH (security_barrier) AS SELECT * FROM streams.s WHERE "partition" = 0;
CREATE VIEW invoker WITH (security_invoker) AS SELECT * FROM streams.s;
CREATE VIEW functions AS SELECT * FROM stream.read('s', 0);
GRANT SELECT, INSERT ON plain, barrier, invoker, functions TO regress_stream_granter, regress_stream_reader;
SET ROLE regress_stream_granter;
SELECT count(*) > 0 AS plain FROM plain;
SELECT count(*) > 0 AS barrier FROM barrier;
SELECT count(*) FROM invoker; \echo :SQLSTATE
SELECT count(*) FROM functions; \echo :SQLSTATE
INSERT INTO plain (key, value) VALUES ('through a view', '1');
INSERT INTO invoker (key, value) VALUES ('through a view', '1'); \echo :SQLSTATE
SET ROLE regress_stream_reader;
SELECT count(*) > 0 AS invoker FROM invoker;
SELECT count(*) > 0 AS functions FROM functions;
INSERT INTO invoker (key, value) VALUES ('through a view', '1'); \echo :SQLSTATE
-- behind a barrier, a condition that is not leakproof sees only the view's rows; bounds hold
RESET ROLE;
CREATE FUNCTION leak(value jsonb) RETURNS boolean LANGUAGE plpgsql COST 0.0001 AS $$ BEGIN RAISE NOTICE 'sees %', value; RETURN true; END $$;
SELECT count(stream.publish('s', 'secret', '"secret"', "partition" => 1)), count(stream.publish('s', 'open', '"open"', "partition" => 0));
SELECT max(record_offset) AS last FROM streams.s WHERE "partition" = 0 \gset
SET ROLE regress_stream_granter;
SELECT value FROM barrier WHERE record_offset >= :last AND leak(value);
RESET ROLE;

-- SECURITY DEFINER lends, for reading as well.
CREATE FUNCTION lent() RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	PERFORM stream.publish('s', 'lent', '1');
	INSERT INTO streams.s (key, value) VALUES ('lent', '2');
	RETURN (SELECT count(*) FROM streams.s WHERE "partition" = 0) - (SELECT count(*) FROM stream.read('s', 0, NULL, NULL, NULL));
END
$$;
SET ROLE regress_stream_granter;
SELECT lent();
SELECT rights('s');
RESET ROLE;
SELECT count(*) FROM streams.s WHERE key = 'lent';
-- prepared before the right was taken
GRANT SELECT, INSERT ON streams.s TO regress_stream_granter;
SET ROLE regress_stream_granter;
PREPARE p AS SELECT count(*) > 0 AS counts FROM streams.s;
PREPARE q AS INSERT INTO streams.s (key, value) VALUES ('prepared', '1');
PREPARE r AS SELECT stream.publish('s', 'prepared', '1') IS NOT NULL AS published;
EXECUTE p; EXECUTE q; EXECUTE r;
RESET ROLE;
REVOKE SELECT, INSERT ON streams.s FROM regress_stream_granter;
SET ROLE regress_stream_granter;
EXECUTE p; \echo :SQLSTATE
EXECUTE q; \echo :SQLSTATE
EXECUTE r; \echo :SQLSTATE
RESET ROLE;
DEALLOCATE ALL;

DROP VIEW plain, barrier, invoker, functions;
DROP FUNCTION leak, lent, rights;
SELECT stream.drop_stream('s'), stream.drop_stream('theirs');
DROP OWNED BY regress_stream_reader, regress_stream_writer, regress_stream_columns, regress_stream_granter, regress_stream_creator,
	regress_stream_group, regress_stream_heir, regress_stream_stranger;
DROP ROLE regress_stream_reader, regress_stream_writer, regress_stream_columns, regress_stream_granter, regress_stream_creator,
	regress_stream_group, regress_stream_heir, regress_stream_stranger;
SELECT * FROM left_over();
