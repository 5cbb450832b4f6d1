{{/* What the service, the test and the topics Job have in common: files, environment, security. */}}

{{/* The files that the configuration is read from; what is later wins. */}}
{{- define "sluicegate.configArgs" -}}
- --config
- {{ printf "/etc/sluicegate/config/%s" (empty .Values.existingConfigMap.name | ternary "sluicegate.yaml" .Values.existingConfigMap.key) | quote }}
- --config
- {{ printf "/etc/sluicegate/policy/%s" (empty .Values.existingPolicyConfigMap.name | ternary "policy.yaml" .Values.existingPolicyConfigMap.key) | quote }}
{{- end -}}

{{/* Directories, never single files: those would not follow a change. */}}
{{- define "sluicegate.volumes" -}}
- name: config
  configMap:
    name: {{ include "sluicegate.configMapName" . | quote }}
- name: policy
  configMap:
    name: {{ include "sluicegate.policyConfigMapName" . | quote }}
- name: fingerprint
  secret:
    secretName: {{ .Values.fingerprintKey.existingSecret | quote }}
    defaultMode: 288 # 0440
    items:
      - key: {{ .Values.fingerprintKey.key | quote }}
        path: fingerprint.key
{{- if .Values.sasl.mechanism }}
- name: sasl
  secret:
    secretName: {{ .Values.sasl.existingSecret | quote }}
    defaultMode: 288 # 0440
    items:
      - key: {{ .Values.sasl.passwordKey | quote }}
        path: password
{{- end }}
{{- if .Values.tls.enabled }}
{{- with .Values.tls.ca }}
{{- if .existingSecret }}
- name: tls-ca
  secret:
    secretName: {{ .existingSecret | quote }}
    defaultMode: 288 # 0440
    items:
      - key: {{ .key | quote }}
        path: ca.crt
{{- else if .existingConfigMap }}
- name: tls-ca
  configMap:
    name: {{ .existingConfigMap | quote }}
    items:
      - key: {{ .key | quote }}
        path: ca.crt
{{- end }}
{{- end }}
{{- with .Values.tls.client }}
{{- if .existingSecret }}
- name: tls-client
  secret:
    secretName: {{ .existingSecret | quote }}
    defaultMode: 288 # 0440
    items:
      - key: {{ .certKey | quote }}
        path: tls.crt
      - key: {{ .keyKey | quote }}
        path: tls.key
{{- end }}
{{- end }}
{{- end }}
{{- with .Values.extraVolumes }}
{{ include "sluicegate.rendered" (list $ .) }}
{{- end }}
{{- end -}}

{{- define "sluicegate.mounts" -}}
- name: config
  mountPath: /etc/sluicegate/config
  readOnly: true
- name: policy
  mountPath: /etc/sluicegate/policy
  readOnly: true
- name: fingerprint
  mountPath: /etc/sluicegate/fingerprint
  readOnly: true
{{- if .Values.sasl.mechanism }}
- name: sasl
  mountPath: /etc/sluicegate/sasl
  readOnly: true
{{- end }}
{{- if .Values.tls.enabled }}
{{- if or .Values.tls.ca.existingSecret .Values.tls.ca.existingConfigMap }}
- name: tls-ca
  mountPath: /etc/sluicegate/tls/ca
  readOnly: true
{{- end }}
{{- if .Values.tls.client.existingSecret }}
- name: tls-client
  mountPath: /etc/sluicegate/tls/client
  readOnly: true
{{- end }}
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ include "sluicegate.rendered" (list $ .) }}
{{- end }}
{{- end -}}

{{/* The fields that every container of the chart has. */}}
{{- define "sluicegate.container" -}}
image: {{ include "sluicegate.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy | quote }}
securityContext:
  {{- toYaml .Values.containerSecurityContext | nindent 2 }}
env:
  # Part of the transactional id: a pod that comes back under its name takes the id from its predecessor.
  - name: SLUICEGATE__KAFKA__INSTANCE
    valueFrom:
      fieldRef:
        fieldPath: metadata.name
  {{- with .Values.extraEnv }}
  {{- include "sluicegate.rendered" (list $ .) | nindent 2 }}
  {{- end }}
  {{- with .jobUser }}
  - name: SLUICEGATE__KAFKA__SASL__USERNAME
    value: {{ . | quote }}
  {{- end }}
{{- with .Values.extraEnvFrom }}
envFrom:
  {{- include "sluicegate.rendered" (list $ .) | nindent 2 }}
{{- end }}
volumeMounts:
  {{- include "sluicegate.mounts" . | nindent 2 }}
{{- end -}}

{{/* The fields that every pod of the chart has. */}}
{{- define "sluicegate.podBase" -}}
serviceAccountName: {{ include "sluicegate.serviceAccountName" . | quote }}
automountServiceAccountToken: {{ .Values.serviceAccount.automountToken | toJson }}
# Variables of services whose names begin like ours would read as configuration.
enableServiceLinks: false
securityContext:
  {{- toYaml .Values.podSecurityContext | nindent 2 }}
{{- $secrets := concat (dig "imagePullSecrets" list (.Values.global | default dict)) (.Values.imagePullSecrets | default list) }}
{{- with $secrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ if kindIs "string" . }}{{ quote . }}{{ else }}{{ quote .name }}{{ end }}
  {{- end }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .Values.runtimeClassName }}
runtimeClassName: {{ . | quote }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.hostAliases }}
hostAliases:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.dnsConfig }}
dnsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
volumes:
  {{- include "sluicegate.volumes" . | nindent 2 }}
{{- end -}}

{{/* The pods of the service. */}}
{{- define "sluicegate.podTemplate" -}}
metadata:
  labels:
    {{- $own := include "sluicegate.labels" (list . "service") | fromYaml }}
    {{- toYaml (merge $own (include "sluicegate.rendered" (list . .Values.podLabels) | fromYaml)) | nindent 4 }}
  annotations:
    {{- /* A changed configuration replaces the pods. What an existing ConfigMap holds is not known here. */}}
    {{- $notes := dict "kubectl.kubernetes.io/default-container" "sluicegate" }}
    {{- if not .Values.existingConfigMap.name }}
    {{- $_ := set $notes "checksum/config" (include "sluicegate.config" . | sha256sum) }}
    {{- end }}
    {{- if and (not .Values.existingPolicyConfigMap.name) (eq .Values.policyReload "roll") }}
    {{- $_ := set $notes "checksum/policy" (include "sluicegate.policy" . | sha256sum) }}
    {{- end }}
    {{- toYaml (merge $notes (include "sluicegate.rendered" (list . .Values.podAnnotations) | fromYaml) (deepCopy (.Values.commonAnnotations | default dict))) | nindent 4 }}
spec:
  {{- include "sluicegate.podBase" . | nindent 2 }}
  terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds | default (include "sluicegate.minGrace" .) | int64 }}
  {{- with .Values.affinity }}
  affinity:
    {{- include "sluicegate.rendered" (list $ .) | nindent 4 }}
  {{- end }}
  {{- if .Values.topologySpread.enabled }}
  topologySpreadConstraints:
    {{- if .Values.topologySpread.constraints }}
    {{- include "sluicegate.rendered" (list . .Values.topologySpread.constraints) | nindent 4 }}
    {{- else }}
    {{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
    - maxSkew: 1
      topologyKey: {{ . | toJson }}
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "sluicegate.selectorLabels" $ | nindent 10 }}
    {{- end }}
    {{- end }}
  {{- end }}
  {{- with .Values.extraInitContainers }}
  initContainers:
    {{- include "sluicegate.rendered" (list $ .) | nindent 4 }}
  {{- end }}
  containers:
    - name: sluicegate
      {{- include "sluicegate.container" . | nindent 6 }}
      args:
        - run
        {{- include "sluicegate.configArgs" . | nindent 8 }}
        {{- with .Values.extraArgs }}
        {{- include "sluicegate.rendered" (list $ .) | nindent 8 }}
        {{- end }}
      ports:
        - name: http
          containerPort: {{ .Values.http.port | toJson }}
          protocol: TCP
      startupProbe:
        {{- if .Values.probes.startup }}
        {{- toYaml .Values.probes.startup | nindent 8 }}
        {{- else }}
        httpGet:
          path: /startupz
          port: http
        periodSeconds: 5
        timeoutSeconds: 3
        failureThreshold: 120
        {{- end }}
      livenessProbe:
        {{- if .Values.probes.liveness }}
        {{- toYaml .Values.probes.liveness | nindent 8 }}
        {{- else }}
        httpGet:
          path: /livez
          port: http
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 3
        {{- end }}
      readinessProbe:
        {{- if .Values.probes.readiness }}
        {{- toYaml .Values.probes.readiness | nindent 8 }}
        {{- else }}
        httpGet:
          path: /readyz
          port: http
        periodSeconds: 5
        timeoutSeconds: 3
        failureThreshold: 2
        {{- end }}
      {{- with .Values.lifecycle }}
      lifecycle:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
    {{- with .Values.extraContainers }}
    {{- include "sluicegate.rendered" (list $ .) | nindent 4 }}
    {{- end }}
{{- end -}}
