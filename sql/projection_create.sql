-- Projections: what is created from which arguments.
\set SHOW_CONTEXT never
SELECT stream.create_stream('s', 3);
CREATE TABLE inbox (conversation text, member text, last_seq bigint, messages bigint, PRIMARY KEY (conversation, member));
SELECT stream.create_projection('inbox', 's', 'inbox',
	query => $$ SELECT value->>'conversation' AS conversation, value->>'member' AS member,
		max((value->>'seq')::bigint) AS last_seq, count(*) AS messages
		FROM batch GROUP BY 1, 2 -- all of them$$,
	merge => '{"last_seq": "max", "messages": "sum"}');
SELECT stream.create_projection('copy', 's', statement => 'INSERT INTO inbox (conversation, member) SELECT key, key FROM batch;');
\x
SELECT stream_id - (SELECT max(stream_id) FROM stream_internal.streams) AS stream, projection, owner = current_user AS owner, search_path,
	target_schema, target_table, key, query, merge, statement, apply_sql, replay_safe, on_error, workers, batch_records, paused
FROM stream_internal.projections ORDER BY projection DESC;
\x
SELECT p.projection, o."partition", o.committed_offset
FROM stream_internal.projections p JOIN stream_internal.offsets o ON group_id = projection_id ORDER BY 1, 2;

SELECT stream.drop_stream('s');
SELECT count(*) FROM stream_internal.projections;
SELECT count(*) FROM stream_internal.offsets;
DROP TABLE inbox;
