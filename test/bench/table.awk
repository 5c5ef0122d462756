# Makes the table of "run" from the rows' definitions and the samples.

FNR == NR {
	split($0, field, "|")
	n++
	name[n] = field[1]; text[n] = field[2]; unit[n] = field[3]; target[n] = field[4]
	next
}

{
	count[$1]++
	stream[$1, count[$1]] = $2
	plain[$1, count[$1]] = $3
}

END {
	format = "%-55s %12s %12s %7s %15s %7s %4s\n"
	printf format, "what", "stream", "plain", "ratio", "min - max", "target", "ok"
	for (i = 1; i <= n; i++) {
		if (index(" " chosen " ", " " name[i] " ") && count[name[i]])
			row(i)
	}
	if (targets)
		printf "\n%d of %d targets reached\n", reached, targets
}

function row(i,    r, k, values, paired, ratio, range, ok, t) {
	r = name[i]
	for (k = 1; k <= count[r]; k++)
		values[k] = stream[r, k]
	s = number(median(values, count[r]), unit[i])
	if (plain[r, 1] == "-") {
		printf format, text[i], s, "", "", "", "", ""
		return
	}
	for (k = 1; k <= count[r]; k++) {
		values[k] = plain[r, k]
		paired[k] = stream[r, k] / plain[r, k]
	}
	ratio = median(paired, count[r])	# leaves them sorted
	range = sprintf("%.2f - %.2f", paired[1], paired[count[r]])
	if (target[i] != "") {
		split(target[i], t, " ")
		ok = (t[1] == ">=" ? ratio >= t[2] : ratio <= t[2]) ? "yes" : "NO"
		targets++
		if (ok == "yes")
			reached++
	}
	printf format, text[i], s, number(median(values, count[r]), unit[i]),
		sprintf("%.2f", ratio), range, target[i], ok
}

# Sorts values[1..n] and returns the middle one, or the mean of the two.
function median(values, n,    i, j, value) {
	for (i = 2; i <= n; i++) {
		value = values[i] + 0
		for (j = i - 1; j >= 1 && values[j] + 0 > value; j--)
			values[j + 1] = values[j]
		values[j + 1] = value
	}
	return n % 2 ? values[(n + 1) / 2] : (values[n / 2] + values[n / 2 + 1]) / 2
}

function number(value, unit) {
	return sprintf(value >= 100 ? "%.0f %s" : value >= 10 ? "%.1f %s" : "%.2f %s", value, unit)
}
