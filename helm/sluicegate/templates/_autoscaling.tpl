{{/* Each step is a rebalance: up at once where lag asks for it, down slowly. */}}
{{- define "sluicegate.behavior" -}}
{{- if .Values.autoscaling.behavior -}}
{{- toYaml .Values.autoscaling.behavior -}}
{{- else -}}
scaleUp:
  stabilizationWindowSeconds: 60
  selectPolicy: Max
  policies:
    - type: Percent
      value: 50
      periodSeconds: 60
    - type: Pods
      value: 2
      periodSeconds: 60
scaleDown:
  stabilizationWindowSeconds: 600
  policies:
    - type: Pods
      value: 1
      periodSeconds: 120
{{- end -}}
{{- end -}}
