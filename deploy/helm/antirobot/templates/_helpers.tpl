{{- define "antirobot.name" -}}
{{- if contains "antirobot" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-antirobot" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "antirobot.selector" -}}
app.kubernetes.io/name: antirobot
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "antirobot.labels" -}}
{{ include "antirobot.selector" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- /* What can't work is refused when the chart is rendered. */}}
{{- define "antirobot.check" -}}
{{- if and (gt (int .Values.replicas) 1) (not .Values.store.url) }}{{ fail "replicas: more than one gateway needs store.url: with stores of their own they know nothing of each other" }}{{ end }}
{{- if and .Values.store.url (not .Values.store.existingSecret) }}{{ fail "store.existingSecret: gateways that share a store need a Secret that wraps their keys" }}{{ end }}
{{- $drain := add (trimSuffix "s" .Values.drain | int) (trimSuffix "s" .Values.drainDelay | int) 5 }}
{{- if lt (int .Values.terminationGracePeriodSeconds) (int $drain) }}{{ fail (printf "terminationGracePeriodSeconds: %d is shorter than drainDelay and drain with 5 seconds to spare, %d" (int .Values.terminationGracePeriodSeconds) (int $drain)) }}{{ end }}
{{- end }}
