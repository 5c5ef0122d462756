/*-------------------------------------------------------------------------
 *
 * test_merge.c
 *		Merges by name, and the statement that applies a batch by them.
 *
 * What the statement does is tested in a server.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres_fe.h"

#include "merge.h"
#include "tap.h"

/* ---------- names ---------- */

typedef struct MergeName
{
	const char *text;
	StreamMerge merge;
	const char *by;
} MergeName;

static const MergeName names[] = {
	{"max", STREAM_MERGE_MAX, NULL},
	{"min", STREAM_MERGE_MIN, NULL},
	{"and", STREAM_MERGE_AND, NULL},
	{"or", STREAM_MERGE_OR, NULL},
	{"bit_and", STREAM_MERGE_BIT_AND, NULL},
	{"bit_or", STREAM_MERGE_BIT_OR, NULL},
	{"union", STREAM_MERGE_UNION, NULL},
	{"sum", STREAM_MERGE_SUM, NULL},
	{"count", STREAM_MERGE_COUNT, NULL},
	{"latest by seq", STREAM_MERGE_LATEST, "seq"},
	{"earliest by seq", STREAM_MERGE_EARLIEST, "seq"},
	/* a column's name is all of the rest */
	{"latest by  two words ", STREAM_MERGE_LATEST, " two words "},
	{"latest by by", STREAM_MERGE_LATEST, "by"}
};

static const char *const no_names[] = {
	"", " ", "MAX", "max ", " max", "maximum", "ma", "latest", "latest ", "latest by", "latest by ", "latestby seq",
	"last by seq", "latest  by seq", "Latest by seq", "earliest", "earliest by ", "max by seq", "key"
};

static void
test_names(void)
{
	StreamMerge merge;
	const char *by;

	for (int i = 0; i < (int) lengthof(names); i++)
	{
		bool		found = stream_parse_merge(names[i].text, &merge, &by);

		tap_ok(found && merge == names[i].merge &&
			   (by == NULL) == (names[i].by == NULL) && (by == NULL || strcmp(by, names[i].by) == 0),
			   "\"%s\"", names[i].text);
	}
	for (int i = 0; i < (int) lengthof(no_names); i++)
		tap_ok(!stream_parse_merge(no_names[i], &merge, &by), "no merge: \"%s\"", no_names[i]);
	for (int i = STREAM_MERGE_KEY; i <= STREAM_MERGE_COUNT; i++)
		tap_ok(stream_merge_is_replay_safe(i) == (i != STREAM_MERGE_SUM && i != STREAM_MERGE_COUNT),
			   "merge %d: repeatable or not", i);
}

/* ---------- statements ---------- */

static void
is_statement(const char *name, const StreamMergeColumn *columns, int n, const char *expected)
{
	StringInfoData sql;

	initStringInfo(&sql);
	stream_apply_statement(&sql, "public.t", "SELECT 1 -- all", columns, n);
	tap_ok(strcmp(sql.data, expected) == 0, "%s", name);
	if (strcmp(sql.data, expected) != 0)
		tap_note("got:\n%s", sql.data);
	pfree(sql.data);
}

#define KEY(name) \
	{.merge = STREAM_MERGE_KEY, .column = name, .input = "q." name, .by = -1}
#define MERGED(kind, name, with, op) \
	{.merge = kind, .column = name, .input = "q." name, .aggregate = with, .operator = op, .by = -1}
#define BY(kind, name, index) \
	{.merge = kind, .column = name, .input = "q." name, .by = index}

static void
test_key_only(void)
{
	const StreamMergeColumn columns[] = {KEY("a"), KEY("\"B\"")};

	is_statement("nothing but a key", columns, lengthof(columns),
				 "INSERT INTO public.t AS t (a, \"B\")\n"
				 "SELECT\n\tq.a,\n\tq.\"B\"\n"
				 "FROM (\nSELECT 1 -- all\n) AS q\n"
				 "GROUP BY 1, 2 ORDER BY 1, 2\n"
				 "ON CONFLICT (a, \"B\") DO NOTHING");
}

static void
test_every_way(void)
{
	StreamMergeColumn columns[] = {
		MERGED(STREAM_MERGE_MAX, "mx", "s.max", NULL),
		KEY("k"),
		MERGED(STREAM_MERGE_MIN, "mn", "s.min", NULL),
		MERGED(STREAM_MERGE_AND, "an", "s.bool_and", "AND"),
		MERGED(STREAM_MERGE_SUM, "su", "s.sum", "OPERATOR(s.+)"),
		MERGED(STREAM_MERGE_UNION, "ar", "s.array_union_agg", NULL),
		MERGED(STREAM_MERGE_UNION, "mr", "s.range_agg", "OPERATOR(s.+)")
	};

	columns[0].equality = "OPERATOR(x.=)";
	is_statement("every way to merge, the key not first", columns, lengthof(columns),
				 "INSERT INTO public.t AS t (mx, k, mn, an, su, ar, mr)\n"
				 "SELECT\n\ts.max(q.mx),\n\tq.k,\n\ts.min(q.mn),\n\ts.bool_and(q.an),\n\ts.sum(q.su),\n"
				 "\ts.array_union_agg(q.ar),\n\ts.range_agg(q.mr)\n"
				 "FROM (\nSELECT 1 -- all\n) AS q\n"
				 "GROUP BY 2 ORDER BY 2\n"
				 "ON CONFLICT (k) DO UPDATE SET\n"
				 "\tmx = GREATEST(t.mx, excluded.mx),\n"
				 "\tmn = LEAST(t.mn, excluded.mn),\n"
				 "\tan = COALESCE(t.an AND excluded.an, t.an, excluded.an),\n"
				 "\tsu = COALESCE(t.su OPERATOR(s.+) excluded.su, t.su, excluded.su),\n"
				 "\tar = stream.array_union(t.ar, excluded.ar),\n"
				 "\tmr = COALESCE(t.mr OPERATOR(s.+) excluded.mr, t.mr, excluded.mr)\n"
				 "WHERE COALESCE(NOT (t.mx OPERATOR(x.=) GREATEST(t.mx, excluded.mx)),"
				 " (t.mx IS NULL) <> (GREATEST(t.mx, excluded.mx) IS NULL))\n"
				 "\tOR t.mn IS DISTINCT FROM LEAST(t.mn, excluded.mn)\n"
				 "\tOR t.an IS DISTINCT FROM COALESCE(t.an AND excluded.an, t.an, excluded.an)\n"
				 "\tOR t.su IS DISTINCT FROM COALESCE(t.su OPERATOR(s.+) excluded.su, t.su, excluded.su)\n"
				 "\tOR t.ar IS DISTINCT FROM stream.array_union(t.ar, excluded.ar)\n"
				 "\tOR t.mr IS DISTINCT FROM COALESCE(t.mr OPERATOR(s.+) excluded.mr, t.mr, excluded.mr)");
}

/* Columns by one column are ranked together; those by another one are not. */
static void
test_rank(void)
{
	const StreamMergeColumn columns[] = {
		KEY("k"),
		BY(STREAM_MERGE_LATEST, "v", 3),
		BY(STREAM_MERGE_LATEST, "w", 3),
		MERGED(STREAM_MERGE_MAX, "at", "s.max", NULL),
		MERGED(STREAM_MERGE_MIN, "since", "s.min", NULL),
		BY(STREAM_MERGE_EARLIEST, "f", 4)
	};
#define LATER	"stream.is_later(excluded.at, excluded.v, excluded.w, t.at, t.v, t.w)"
#define EARLIER	"stream.is_earlier(excluded.since, excluded.f, t.since, t.f)"

	is_statement("latest and earliest", columns, lengthof(columns),
				 "INSERT INTO public.t AS t (k, v, w, at, since, f)\n"
				 "SELECT\n\tq.k,\n\tstream.latest(q.v, q.at, q.v, q.w),\n\tstream.latest(q.w, q.at, q.v, q.w),\n"
				 "\ts.max(q.at),\n\ts.min(q.since),\n\tstream.earliest(q.f, q.since)\n"
				 "FROM (\nSELECT 1 -- all\n) AS q\n"
				 "GROUP BY 1 ORDER BY 1\n"
				 "ON CONFLICT (k) DO UPDATE SET\n"
				 "\tv = CASE WHEN " LATER " THEN excluded.v ELSE t.v END,\n"
				 "\tw = CASE WHEN " LATER " THEN excluded.w ELSE t.w END,\n"
				 "\tat = GREATEST(t.at, excluded.at),\n"
				 "\tsince = LEAST(t.since, excluded.since),\n"
				 "\tf = CASE WHEN " EARLIER " THEN excluded.f ELSE t.f END\n"
				 "WHERE t.v IS DISTINCT FROM CASE WHEN " LATER " THEN excluded.v ELSE t.v END\n"
				 "\tOR t.w IS DISTINCT FROM CASE WHEN " LATER " THEN excluded.w ELSE t.w END\n"
				 "\tOR t.at IS DISTINCT FROM GREATEST(t.at, excluded.at)\n"
				 "\tOR t.since IS DISTINCT FROM LEAST(t.since, excluded.since)\n"
				 "\tOR t.f IS DISTINCT FROM CASE WHEN " EARLIER " THEN excluded.f ELSE t.f END");
}

int
main(void)
{
	test_names();
	test_key_only();
	test_every_way();
	test_rank();
	return tap_done();
}
