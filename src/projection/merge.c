/*-------------------------------------------------------------------------
 *
 * merge.c
 *		Merges, and the statement that applies a batch by them.
 *
 * The statement is one upsert.  A batch's values for a key are merged first, by
 * aggregates, so that a row is written once however often a batch has its key;
 * then with the row that is there.  A row that would not change is not written.
 * Rows are written in the order of their keys, so that two appliers cannot
 * deadlock.
 *
 * Nulls: for latest and earliest, a row whose deciding column is null does not
 * count, and a null value is a value, less than all others.  For all other
 * merges, a null does not count.
 *
 *-------------------------------------------------------------------------
 */
#ifdef FRONTEND
#include "postgres_fe.h"
#else
#include "postgres.h"
#endif

#include "merge.h"

/* Merges by name, but those with a column. */
static const struct
{
	const char *name;
	StreamMerge merge;
}			merge_names[] = {
	{"max", STREAM_MERGE_MAX},
	{"min", STREAM_MERGE_MIN},
	{"and", STREAM_MERGE_AND},
	{"or", STREAM_MERGE_OR},
	{"bit_and", STREAM_MERGE_BIT_AND},
	{"bit_or", STREAM_MERGE_BIT_OR},
	{"union", STREAM_MERGE_UNION},
	{"sum", STREAM_MERGE_SUM},
	{"count", STREAM_MERGE_COUNT}
};

/* after_words returns what follows "<word> by ", or null. */
static const char *
after_words(const char *text, const char *word)
{
	size_t		len = strlen(word);

	if (strncmp(text, word, len) != 0 || strncmp(text + len, " by ", 4) != 0 || text[len + 4] == '\0')
		return NULL;
	return text + len + 4;
}

/*
 * stream_parse_merge reads a merge, and returns false when there is no such
 * one.  *by is set to the raw name of the column behind "latest by", or null.
 */
bool
stream_parse_merge(const char *text, StreamMerge *merge, const char **by)
{
	*by = NULL;
	for (size_t i = 0; i < lengthof(merge_names); i++)
		if (strcmp(text, merge_names[i].name) == 0)
		{
			*merge = merge_names[i].merge;
			return true;
		}
	if ((*by = after_words(text, "latest")) != NULL)
		*merge = STREAM_MERGE_LATEST;
	else if ((*by = after_words(text, "earliest")) != NULL)
		*merge = STREAM_MERGE_EARLIEST;
	return *by != NULL;
}

/* stream_merge_is_replay_safe: a value merged again changes nothing. */
bool
stream_merge_is_replay_safe(StreamMerge merge)
{
	return merge != STREAM_MERGE_SUM && merge != STREAM_MERGE_COUNT;
}

/* put_names writes the columns, or those of the key only. */
static void
put_names(StringInfo out, const StreamMergeColumn *columns, int n, bool key_only)
{
	const char *separator = "";

	for (int i = 0; i < n; i++)
	{
		if (key_only && columns[i].merge != STREAM_MERGE_KEY)
			continue;
		appendStringInfo(out, "%s%s", separator, columns[i].column);
		separator = ", ";
	}
}

/* put_key_numbers writes where the key's columns are in the select list. */
static void
put_key_numbers(StringInfo out, const StreamMergeColumn *columns, int n)
{
	const char *separator = "";

	for (int i = 0; i < n; i++)
	{
		if (columns[i].merge != STREAM_MERGE_KEY)
			continue;
		appendStringInfo(out, "%s%d", separator, i + 1);
		separator = ", ";
	}
}

/*
 * put_rank writes what decides between rows for a column of latest or earliest:
 * the column it goes by, then, to break ties, all columns that go by the same
 * one, so that these stay together.
 */
static void
put_rank(StringInfo out, const char *prefix, const StreamMergeColumn *columns, int n, int of)
{
	int			by = columns[of].by;

	appendStringInfo(out, "%s%s", prefix, columns[by].column);
	for (int i = 0; i < n; i++)
		if (columns[i].by == by)
			appendStringInfo(out, ", %s%s", prefix, columns[i].column);
}

/*
 * put_first writes the aggregate that does the same with the query's values.  It
 * breaks ties by its own value by itself.
 */
static void
put_first(StringInfo out, const StreamMergeColumn *columns, int n, int of)
{
	int			by = columns[of].by;
	int			together = 0;

	for (int i = 0; i < n; i++)
		together += columns[i].by == by;
	appendStringInfo(out, "stream.%s(%s, %s", columns[of].merge == STREAM_MERGE_LATEST ? "latest" : "earliest",
					 columns[of].input, columns[by].input);
	for (int i = 0; i < n && together > 1; i++)
		if (columns[i].by == by)
			appendStringInfo(out, ", %s", columns[i].input);
	appendStringInfoChar(out, ')');
}

/* put_batch writes the value of a column for all rows of a batch with one key. */
static void
put_batch(StringInfo out, const StreamMergeColumn *columns, int n, int of)
{
	const StreamMergeColumn *column = &columns[of];

	switch (column->merge)
	{
		case STREAM_MERGE_KEY:
			appendStringInfoString(out, column->input);
			break;
		case STREAM_MERGE_LATEST:
		case STREAM_MERGE_EARLIEST:
			put_first(out, columns, n, of);
			break;
		default:
			appendStringInfo(out, "%s(%s)", column->aggregate, column->input);
	}
}

/* put_merged writes the value of a column after merging the row that is there and the batch's. */
static void
put_merged(StringInfo out, const StreamMergeColumn *columns, int n, int of)
{
	const StreamMergeColumn *column = &columns[of];
	const char *name = column->column;

	switch (column->merge)
	{
		case STREAM_MERGE_MAX:
			appendStringInfo(out, "GREATEST(t.%s, excluded.%s)", name, name);
			break;
		case STREAM_MERGE_MIN:
			appendStringInfo(out, "LEAST(t.%s, excluded.%s)", name, name);
			break;
		case STREAM_MERGE_LATEST:
		case STREAM_MERGE_EARLIEST:
			appendStringInfo(out, "CASE WHEN stream.is_%s(",
							 column->merge == STREAM_MERGE_LATEST ? "later" : "earlier");
			put_rank(out, "excluded.", columns, n, of);
			appendStringInfoString(out, ", ");
			put_rank(out, "t.", columns, n, of);
			appendStringInfo(out, ") THEN excluded.%s ELSE t.%s END", name, name);
			break;
		default:
			if (column->operator == NULL)
				appendStringInfo(out, "stream.array_union(t.%s, excluded.%s)", name, name);
			else
				appendStringInfo(out, "COALESCE(t.%s %s excluded.%s, t.%s, excluded.%s)",
								 name, column->operator, name, name, name);
	}
}

/* put_changed writes the condition that a column's merged value is another one than before. */
static void
put_changed(StringInfo out, const StreamMergeColumn *columns, int n, int of)
{
	const StreamMergeColumn *column = &columns[of];
	StringInfoData merged;

	initStringInfo(&merged);
	put_merged(&merged, columns, n, of);
	if (column->equality == NULL)
		appendStringInfo(out, "t.%s IS DISTINCT FROM %s", column->column, merged.data);
	else
		appendStringInfo(out, "COALESCE(NOT (t.%s %s %s), (t.%s IS NULL) <> (%s IS NULL))",
						 column->column, column->equality, merged.data, column->column, merged.data);
	pfree(merged.data);
}

/*
 * stream_apply_statement writes the statement.  target is the qualified name of
 * the table, query the text of one SELECT over batch.  There is a key.
 */
void
stream_apply_statement(StringInfo out, const char *target, const char *query,
					   const StreamMergeColumn *columns, int n)
{
	const char *separator = "";
	int			nkeys = 0;

	for (int i = 0; i < n; i++)
		nkeys += columns[i].merge == STREAM_MERGE_KEY;

	appendStringInfo(out, "INSERT INTO %s AS t (", target);
	put_names(out, columns, n, false);
	appendStringInfoString(out, ")\nSELECT");
	for (int i = 0; i < n; i++)
	{
		appendStringInfoString(out, i == 0 ? "\n\t" : ",\n\t");
		put_batch(out, columns, n, i);
	}
	/* the query may end in a comment */
	appendStringInfo(out, "\nFROM (\n%s\n) AS q\nGROUP BY ", query);
	put_key_numbers(out, columns, n);
	appendStringInfoString(out, " ORDER BY ");
	put_key_numbers(out, columns, n);
	appendStringInfoString(out, "\nON CONFLICT (");
	put_names(out, columns, n, true);
	appendStringInfoString(out, ") DO ");
	if (nkeys == n)
	{
		appendStringInfoString(out, "NOTHING");
		return;
	}
	appendStringInfoString(out, "UPDATE SET");
	for (int i = 0; i < n; i++)
	{
		if (columns[i].merge == STREAM_MERGE_KEY)
			continue;
		appendStringInfo(out, "%s\n\t%s = ", separator, columns[i].column);
		put_merged(out, columns, n, i);
		separator = ",";
	}
	appendStringInfoString(out, "\nWHERE ");
	separator = "";
	for (int i = 0; i < n; i++)
	{
		if (columns[i].merge == STREAM_MERGE_KEY)
			continue;
		appendStringInfoString(out, separator);
		put_changed(out, columns, n, i);
		separator = "\n\tOR ";
	}
}
