-- What the extension defines, and how.

\pset format unaligned
\pset footer off
-- The functions for everyone: a published signature is never extended.
SELECT * FROM (
	SELECT proname, pg_get_function_arguments(p.oid) AS arguments, pg_get_function_result(p.oid) AS result
	FROM pg_proc p WHERE pronamespace = 'stream'::regnamespace
) f ORDER BY proname COLLATE "C", arguments COLLATE "C";
-- none is STRICT that could swallow a null, all that touch a log are volatile and not parallel
SELECT proname, prokind, provolatile, proisstrict, proparallel, prosecdef, count(*)
FROM pg_proc p WHERE pronamespace = 'stream'::regnamespace GROUP BY 1, 2, 3, 4, 5, 6 ORDER BY proname COLLATE "C";
SELECT proname, provolatile, proisstrict, proparallel, prosecdef
FROM pg_proc p WHERE pronamespace = 'stream_internal'::regnamespace AND proname NOT LIKE 'record\_position\_%' ORDER BY proname COLLATE "C";
SELECT DISTINCT provolatile, proisstrict, proparallel, prosecdef
FROM pg_proc p WHERE pronamespace = 'stream_internal'::regnamespace AND proname LIKE 'record\_position\_%';

-- The views and their columns.
SELECT relname, string_agg(attname || ' ' || format_type(atttypid, atttypmod), ', ' ORDER BY attnum) AS columns
FROM pg_class c JOIN pg_attribute a ON attrelid = c.oid
WHERE relnamespace = 'stream'::regnamespace AND relkind = 'v' AND attnum > 0 GROUP BY 1 ORDER BY relname COLLATE "C";
SELECT relname FROM pg_class c
WHERE relnamespace = 'stream'::regnamespace AND relkind = 'v' AND NOT has_table_privilege('public', oid, 'SELECT');
SELECT nspname, has_schema_privilege('public', oid, 'USAGE') AS usage, has_schema_privilege('public', oid, 'CREATE') AS "create"
FROM pg_namespace WHERE nspname LIKE 'stream%' ORDER BY 1;

-- Every object has a comment.  (Types of tables and arrays go with them.)
SELECT pg_describe_object(classid, objid, 0) AS without_comment
FROM pg_depend d
WHERE refclassid = 'pg_extension'::regclass AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'stream') AND deptype = 'e'
	AND NOT (classid = 'pg_type'::regclass AND EXISTS (SELECT FROM pg_type WHERE oid = objid AND (typrelid <> 0 OR typelem <> 0)))
	AND obj_description(objid, (SELECT relname FROM pg_class WHERE oid = classid)) IS NULL
ORDER BY 1;
SELECT obj_description(oid, 'pg_extension') IS NOT NULL AS has_comment FROM pg_extension WHERE extname = 'stream';

-- The catalog and its sequence are dumped.
SELECT c::regclass FROM unnest((SELECT extconfig FROM pg_extension WHERE extname = 'stream')) c ORDER BY c::regclass::text;
SELECT relname FROM pg_class WHERE relnamespace = 'stream_internal'::regnamespace AND relkind IN ('r', 'S')
	AND oid <> ALL ((SELECT extconfig FROM pg_extension WHERE extname = 'stream')::oid[]);
-- no column refers to another object by its OID, but for one that is not dumped
SELECT attrelid::regclass, attname FROM pg_attribute JOIN pg_class c ON c.oid = attrelid
WHERE relnamespace = 'stream_internal'::regnamespace AND relkind = 'r' AND attnum > 0 AND atttypid IN (SELECT oid FROM pg_type WHERE typname LIKE 'reg%' OR typname = 'oid');
