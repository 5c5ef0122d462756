-- The extension, and what the other files share.
CREATE EXTENSION stream;

-- Runs a command that is to fail, and tells how it did.
CREATE FUNCTION failure(command text) RETURNS text
	LANGUAGE plpgsql AS $$
DECLARE
	state text;
	message text;
	detail text;
	hint text;
BEGIN
	EXECUTE command;
	RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
		detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	RETURN concat_ws(E'\n', state || ': ' || message,
		'detail: ' || nullif(detail, ''), 'hint: ' || nullif(hint, ''));
END
$$;

-- All that can be read of a stream, in order.
CREATE FUNCTION records(stream text)
	RETURNS TABLE ("partition" int, record_offset bigint, key text, value jsonb, headers jsonb)
	LANGUAGE sql AS $$
	SELECT r."partition", r.record_offset, r.key, r.value, r.headers
	FROM stream.stream_status s,
		generate_series(0, s.partitions - 1) p,
		stream.read(s.stream, p, max_records => NULL, max_bytes => NULL) r
	WHERE s.stream = $1
	ORDER BY 1, 2
$$;

-- The offsets of a stream's partitions, and what is held back there.
CREATE FUNCTION offsets(stream text)
	RETURNS TABLE ("partition" int, log_start bigint, watermark bigint, log_end bigint, records bigint, held_back bigint)
	LANGUAGE sql AS $$
	SELECT p."partition", log_start_offset, high_watermark, log_end_offset, records, records_held_back
	FROM stream.partition_status p
	WHERE p.stream = $1
	ORDER BY 1
$$;

-- What the catalogs hold of streams, all of them together.
CREATE FUNCTION left_over()
	RETURNS TABLE (catalog text, n bigint)
	LANGUAGE sql AS $$
	SELECT 'relations', count(*)
	FROM pg_class c
	WHERE relnamespace IN ('stream_internal'::regnamespace, 'streams'::regnamespace)
		AND NOT EXISTS (SELECT FROM pg_depend
			WHERE classid = 'pg_class'::regclass AND objid = c.oid AND deptype = 'e')
		AND relkind NOT IN ('i', 't')
	UNION ALL SELECT 'types', count(*) FROM pg_type WHERE typnamespace = 'streams'::regnamespace
	UNION ALL SELECT 'streams', count(*) FROM stream_internal.streams
	UNION ALL SELECT 'partitions', count(*) FROM stream_internal.partitions
	UNION ALL SELECT 'segments', count(*) FROM stream_internal.segments
	UNION ALL SELECT 'segment_ranges', count(*) FROM stream_internal.segment_ranges
	ORDER BY 1
$$;

-- No stream yet.
SELECT * FROM left_over();
SELECT count(*) FROM stream.stream_status;
SELECT count(*) FROM stream.partition_status;
SELECT count(*) FROM stream.segment_status;
SELECT count(*) FROM stream.open_publishers;
SELECT count(*) FROM stream.progress;
SELECT string_agg(area, ', ' ORDER BY area) AS areas FROM stream.memory_status;
