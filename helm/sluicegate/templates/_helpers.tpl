{{/* Names. 46 characters leave room for the suffixes of services, jobs and revisions within 63; a release may have dots. */}}
{{- define "sluicegate.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 46 | trimSuffix "-" -}}
{{- end -}}

{{- define "sluicegate.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 46 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | replace "." "-" | trunc 46 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | replace "." "-" | trunc 46 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "sluicegate.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "sluicegate.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* All pods of the release: for the network policy. Never changed: selectors are immutable. */}}
{{- define "sluicegate.releaseLabels" -}}
app.kubernetes.io/name: {{ include "sluicegate.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{/* The pods of the service, and no others of the release. */}}
{{- define "sluicegate.selectorLabels" -}}
{{ include "sluicegate.releaseLabels" . }}
app.kubernetes.io/component: service
{{- end -}}

{{/* Labels of an object: (list root component). */}}
{{- define "sluicegate.labels" -}}
{{- $root := index . 0 -}}
{{- $own := include "sluicegate.releaseLabels" $root | fromYaml -}}
{{- $_ := set $own "app.kubernetes.io/component" (index . 1) -}}
{{- $_ := set $own "app.kubernetes.io/version" $root.Chart.AppVersion -}}
{{- $_ := set $own "app.kubernetes.io/managed-by" $root.Release.Service -}}
{{- $_ := set $own "app.kubernetes.io/part-of" "sluicegate" -}}
{{- $_ := set $own "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-") -}}
{{- toYaml (merge $own (deepCopy ($root.Values.commonLabels | default dict))) -}}
{{- end -}}

{{/* Metadata of an object: (list root name component labels annotations). */}}
{{- define "sluicegate.metadata" -}}
{{- $root := index . 0 -}}
{{- $labels := include "sluicegate.labels" (list $root (index . 2)) | fromYaml -}}
{{- $annotations := merge (deepCopy (index . 4 | default dict)) (deepCopy ($root.Values.commonAnnotations | default dict)) -}}
name: {{ index . 1 | quote }}
namespace: {{ $root.Release.Namespace | quote }}
labels:
  {{- toYaml (merge $labels (deepCopy (index . 3 | default dict))) | nindent 2 }}
{{- with $annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* A value with its templates rendered: (list root value). */}}
{{- define "sluicegate.rendered" -}}
{{- $value := index . 1 -}}
{{- tpl (kindIs "string" $value | ternary $value (toYaml $value)) (index . 0) -}}
{{- end -}}

{{- define "sluicegate.image" -}}
{{- $registry := dig "imageRegistry" "" (.Values.global | default dict) | default .Values.image.registry -}}
{{- $image := .Values.image.repository -}}
{{- if $registry }}{{ $image = printf "%s/%s" $registry $image }}{{ end -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" $image .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" $image (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{/* Milliseconds of a time as the service writes it: 50ms, 30s, 15m, 24h, or a number of milliseconds. */}}
{{- define "sluicegate.milliseconds" -}}
{{- if kindIs "string" . -}}
{{- $n := regexFind "^[0-9]+" . -}}
{{- $unit := trimPrefix $n . | trim -}}
{{- mul (int64 $n) (get (dict "" 1 "ms" 1 "s" 1000 "m" 60000 "h" 3600000) $unit | default 0 | int64) -}}
{{- else -}}
{{- int64 . -}}
{{- end -}}
{{- end -}}

{{/* Bytes of a quantity of Kubernetes, or of a size of the service; 0 for what is neither. */}}
{{- define "sluicegate.bytes" -}}
{{- if kindIs "string" . -}}
{{- $n := regexFind "^[0-9]+" . -}}
{{- $unit := trimPrefix $n . | trim -}}
{{- $units := dict "" 1 "B" 1 "k" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000 -}}
{{- $units = merge $units (dict "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776) -}}
{{- $units = merge $units (dict "KiB" 1024 "MiB" 1048576 "GiB" 1073741824) -}}
{{- mul (int64 $n) (get $units $unit | default 0 | int64) -}}
{{- else -}}
{{- int64 . -}}
{{- end -}}
{{- end -}}

{{/* Thousandths of a CPU. */}}
{{- define "sluicegate.milliCpu" -}}
{{- $text := toString . -}}
{{- if hasSuffix "m" $text }}{{ trimSuffix "m" $text | int64 }}{{ else }}{{ mulf (float64 $text) 1000 | int64 }}{{ end -}}
{{- end -}}

{{/* Bytes that all conversations of a pod may take, 0 where nothing says it. */}}
{{- define "sluicegate.stateBytes" -}}
{{- $set := dig "state" "max_bytes" "" .Values.config -}}
{{- $limit := dig "limits" "memory" "" .Values.resources -}}
{{- if $set -}}
{{- include "sluicegate.bytes" $set -}}
{{- else if $limit -}}
{{- div (mul (include "sluicegate.bytes" $limit | int64) (int64 .Values.stateMemoryPercent)) 100 -}}
{{- else -}}
0
{{- end -}}
{{- end -}}

{{/* The shortest grace period: drain, then the transaction that is open, then leaving the group. */}}
{{- define "sluicegate.minGrace" -}}
{{- $drain := include "sluicegate.milliseconds" (dig "worker" "drain_timeout" "25s" .Values.config) | int64 -}}
{{- $transaction := include "sluicegate.milliseconds" (dig "worker" "transaction_timeout" "15s" .Values.config) | int64 -}}
{{- add 20 (div (add $drain $transaction 999) 1000) -}}
{{- end -}}

{{/* Fewest pods that may be there. */}}
{{- define "sluicegate.fewestPods" -}}
{{- .Values.autoscaling.enabled | ternary .Values.autoscaling.minReplicas .Values.replicaCount | int64 -}}
{{- end -}}

{{- define "sluicegate.configMapName" -}}
{{- .Values.existingConfigMap.name | default (include "sluicegate.fullname" .) -}}
{{- end -}}

{{- define "sluicegate.policy" -}}
{{- $file := dict "policy" .Values.policy }}
{{- with .Values.breakGlass }}
{{- $_ := set $file "break_glass" . }}
{{- end }}
{{- toYaml $file }}
{{- end -}}

{{/* Name of the ConfigMap with the policies. */}}
{{- define "sluicegate.policyConfigMapName" -}}
{{- .Values.existingPolicyConfigMap.name | default (printf "%s-policy" (include "sluicegate.fullname" .)) -}}
{{- end -}}

{{/* The configuration file: what the values say, and what follows from credentials, listener and memory. */}}
{{- define "sluicegate.config" -}}
{{- $config := deepCopy (.Values.config | default dict) -}}
{{- $kafka := get $config "kafka" | default dict -}}
{{- $sasl := .Values.sasl.mechanism -}}
{{- $protocol := empty $sasl | ternary (.Values.tls.enabled | ternary "ssl" "plaintext") (.Values.tls.enabled | ternary "sasl_ssl" "sasl_plaintext") -}}
{{- $_ := set $kafka "security_protocol" $protocol -}}
{{- if $sasl -}}
{{- $_ := set $kafka "sasl" (dict "mechanism" $sasl "username" .Values.sasl.username "password_file" "/etc/sluicegate/sasl/password") -}}
{{- end -}}
{{- if .Values.tls.enabled -}}
{{- if or .Values.tls.ca.existingSecret .Values.tls.ca.existingConfigMap -}}
{{- $_ := set $kafka "ca_file" "/etc/sluicegate/tls/ca/ca.crt" -}}
{{- end -}}
{{- if .Values.tls.client.existingSecret -}}
{{- $properties := get $kafka "properties" | default dict -}}
{{- $_ := set $properties "ssl.certificate.location" "/etc/sluicegate/tls/client/tls.crt" -}}
{{- $_ := set $properties "ssl.key.location" "/etc/sluicegate/tls/client/tls.key" -}}
{{- $_ := set $kafka "properties" $properties -}}
{{- end -}}
{{- end -}}
{{- $_ := set $config "kafka" $kafka -}}
{{- $engine := get $config "engine" | default dict -}}
{{- $_ := set $engine "fingerprint_key_file" "/etc/sluicegate/fingerprint/fingerprint.key" -}}
{{- $_ := set $config "engine" $engine -}}
{{- $address := .Values.http.address -}}
{{- if contains ":" $address }}{{ $address = printf "[%s]" $address }}{{ end -}}
{{- $_ := set $config "http" (dict "listen" (printf "%s:%d" $address (int64 .Values.http.port))) -}}
{{- $bytes := include "sluicegate.stateBytes" . | int64 -}}
{{- if $bytes -}}
{{- $state := get $config "state" | default dict -}}
{{- $_ := set $state "max_bytes" $bytes -}}
{{- $_ := set $config "state" $state -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}
