-- What was read, against the file.  Every number should be 0.
SELECT 'events of the file missing from the stream' AS "check", count(*) AS violations
    FROM file f WHERE NOT EXISTS (SELECT FROM records r WHERE (r.value->>'change_seq')::bigint = f.change_seq)
UNION ALL
SELECT 'events that are there more than once', count(*) - count(DISTINCT value->>'change_seq')
    FROM records
UNION ALL
SELECT 'records that differ from their event', count(*)
    FROM records r LEFT JOIN file f ON f.change_seq = (r.value->>'change_seq')::bigint
    WHERE (r.key, r.value) IS DISTINCT FROM (f.path, value_of(f))
UNION ALL
SELECT 'records out of order within their path', count(*)
    FROM (SELECT (value->>'change_seq')::bigint AS seq,
                 lag((value->>'change_seq')::bigint) OVER (PARTITION BY key ORDER BY partition, record_offset) AS before
          FROM records) r
    WHERE before >= seq
UNION ALL
SELECT 'paths in more than one partition', count(*)
    FROM (SELECT key FROM records GROUP BY key HAVING count(DISTINCT partition) > 1) k
