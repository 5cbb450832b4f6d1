{{/* The endpoint of a monitor: (list root monitor). Each release is a job of its own: alerts and dashboards go by it. */}}
{{- define "sluicegate.endpoint" -}}
{{- $root := index . 0 -}}
{{- $monitor := index . 1 -}}
{{- $job := dict "targetLabel" "job" "replacement" (printf "%s/%s" $root.Release.Namespace (include "sluicegate.fullname" $root)) -}}
{{- $endpoint := dict "port" "http" "path" "/metrics" "scheme" "http" "interval" $monitor.interval "scrapeTimeout" $monitor.scrapeTimeout -}}
{{- $_ := set $endpoint "relabelings" (concat (list $job) (dig "relabelings" list ($monitor.endpoint | default dict))) -}}
{{- toYaml (merge $endpoint (deepCopy ($monitor.endpoint | default dict))) -}}
{{- end -}}
