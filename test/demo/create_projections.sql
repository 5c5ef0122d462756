CREATE TABLE paths (path text PRIMARY KEY, changes int8multirange, change_seq bigint, last_author int);
SELECT stream.create_projection('paths', stream => 'edits', target => 'paths', workers => 2,
    query => $$ SELECT key AS path, int8range(seq, seq, '[]') AS changes, seq AS change_seq, author AS last_author
                FROM (SELECT key, (value->>'change_seq')::bigint AS seq, (value->>'author')::int AS author FROM batch) r $$,
    merge => '{"changes": "union", "change_seq": "max", "last_author": "latest by change_seq"}');

CREATE TABLE lines (path text PRIMARY KEY, added bigint, deleted bigint);
SELECT stream.create_projection('lines', stream => 'edits', target => 'lines', workers => 2,
    query => $$ SELECT key AS path, (value->>'lines_added')::bigint AS added, (value->>'lines_deleted')::bigint AS deleted
                FROM batch $$,
    merge => '{"added": "sum", "deleted": "sum"}');
