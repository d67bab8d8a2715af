#!/usr/bin/env bash
# Trains the built-in model `trained` as docs/model-card.md describes it, and prints its figures:
#
#   tools/model.sh ACCESS-LOG DIRECTORY
#
# ACCESS-LOG is the real log that the card names; in DIRECTORY the data, figures and the model are left.
set -eu
cd "$(dirname "$0")/.."
log=$1 dir=$2 python=/usr/bin/python3
mkdir -p "$dir"
go build -o "$dir/antirobot" .
# Nobody is stopped while the data is made: else the factors would tell of the stopping.
cat >"$dir/watch.yaml" <<'EOF'
formula: {model: none}
defaults: {verdict: {mode: observe, limits: []}}
services: [{name: site, upstream: {urls: ["http://127.0.0.1:1"]}}]
EOF
traffic() { "$dir/antirobot" traffic -c "$dir/watch.yaml" --seed "$1" --scale "$2" --factors "$dir/traffic$1.csv" >/dev/null; }
for run in "11 0.3" "12 1" "13 2" "21 0.5" "22 1"; do
	# shellcheck disable=SC2086
	traffic $run
done
"$dir/antirobot" replay -c "$dir/watch.yaml" --factors "$dir/log.csv" "$log" >/dev/null
# Who does not declare itself counts as human, which some are not.
awk -F, -v OFS=, 'NR > 1 && $1 == "" { $1 = 0; $2 = "undeclared" } 1' "$dir/log.csv" >"$dir/declared.csv"

# What the gateway's own answers leave behind.
own=(--exclude bans --exclude '*_bans*' --exclude 'captcha_*' --exclude stopped_share --exclude '*_solved*' --exclude '*_shown' --exclude '*_failed'
	--exclude 'pages_before_*' --exclude '*_pages_14d')
# What train.py leaves out by itself is said again: this is what the figures of the card were made with.
# What a client says of itself, and what is kept by it.
agent=(--exclude 'agent_*' --exclude agents --exclude clients --exclude version_age --exclude misfits)
# What is the site's, not the visitor's; and where made-up people are more alike than real ones.
site=(--exclude 'answer_*' --exclude 'depth*' --exclude query_share --exclude number_share --exclude 'network_*' --exclude night_share
	--exclude post_share --exclude redirect_share --exclude failed_share --exclude 'shape*' --exclude navigation_share --exclude 'load_*'
	--exclude fields --exclude cookie_age --exclude 'hours_*' --exclude session_age --exclude data_share --exclude languages)
# What people may switch off, or lack.
habits=(--habit referer_none_share=1,referer_same_share=0,referer_known_share=0,referer_foreign_share=0
	--habit cookie_share=0,cookies=0 --habit parts_per_page=0,parts_missing=1 --habit not_modified_share=0
	--habit 'referer_none_share=1,referer_same_share=0,referer_known_share=0,referer_foreign_share=0,cookie_share=0,cookies=0')

echo "== the real log alone, without what clients say of themselves"
$python tools/train.py --data "$dir/declared.csv" "${own[@]}" "${agent[@]}" --scores "$dir/log.scores.csv" --out "$dir/log.json"
echo
echo "== the model: made-up traffic and the real log"
$python tools/train.py --data "$dir/traffic11.csv" --data "$dir/traffic12.csv" --data "$dir/traffic13.csv" --data "$dir/declared.csv" \
	"${own[@]}" "${agent[@]}" "${site[@]}" "${habits[@]}" --folds 5 --trees 120 --out "$dir/trained.json"
for data in traffic21 traffic22 declared; do
	echo
	echo "== the model on $data"
	"$dir/antirobot" formula eval --model "$dir/trained.json" --data "$dir/$data.csv" --fpr 0.001 --html "$dir/$data.html"
	echo
	echo "== the score card on $data"
	"$dir/antirobot" formula eval --model default --data "$dir/$data.csv" --threshold 0.5 | grep -A 99 '^A threshold'
done
