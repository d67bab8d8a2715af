{{- define "antirobot.name" -}}
{{- if contains "antirobot" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-antirobot" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- /* Of the root and the name of a part: gateways are antirobot, processors antirobot-processor. */}}
{{- define "antirobot.selectorOf" -}}
app.kubernetes.io/name: {{ index . 1 }}
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
{{- end }}

{{- define "antirobot.labelsOf" -}}
{{- $root := index . 0 }}
{{- include "antirobot.selectorOf" . }}
app.kubernetes.io/version: {{ $root.Values.image.tag | default $root.Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
{{- end }}

{{- define "antirobot.selector" -}}
{{- include "antirobot.selectorOf" (list . "antirobot") }}
{{- end }}

{{- define "antirobot.labels" -}}
{{- include "antirobot.labelsOf" (list . "antirobot") }}
{{- end }}

{{- /* Who may reach the private port: those of the values, and the gateways and processors, which ask each other. */}}
{{- define "antirobot.privateFrom" -}}
{{- toYaml .Values.networkPolicy.privateFrom }}
- podSelector:
    matchExpressions: [{key: app.kubernetes.io/name, operator: In, values: [antirobot, antirobot-processor]}]
    matchLabels: {app.kubernetes.io/instance: {{ .Release.Name }}}
{{- end }}

{{- /* The ports at which balancers ask, if checkFrom says who. */}}
{{- define "antirobot.checkPorts" -}}
{{- if .Values.networkPolicy.checkFrom }}
{{- $check := .Values.config.check | default dict }}
{{- range concat ($check.listen | default list) ($check.grpc | default list) ($check.spoe | default list) }}
- port: {{ regexFind "[0-9]+$" . }}
{{- end }}
{{- end }}
{{- end }}

{{- /* What can't work is refused when the chart is rendered. */}}
{{- define "antirobot.check" -}}
{{- if and (gt (int .Values.replicas) 1) (not .Values.store.url) }}{{ fail "replicas: more than one gateway needs store.url: with stores of their own they know nothing of each other" }}{{ end }}
{{- if and (gt (int .Values.processors.replicas) 0) (not .Values.store.url) }}{{ fail "processors.replicas: gateways and processors meet in a shared store: set store.url" }}{{ end }}
{{- if and .Values.store.url (not .Values.store.existingSecret) }}{{ fail "store.existingSecret: gateways that share a store need a Secret that wraps their keys" }}{{ end }}
{{- $drain := add (trimSuffix "s" .Values.drain | int) (trimSuffix "s" .Values.drainDelay | int) 5 }}
{{- if lt (int .Values.terminationGracePeriodSeconds) (int $drain) }}{{ fail (printf "terminationGracePeriodSeconds: %d is shorter than drainDelay and drain with 5 seconds to spare, %d" (int .Values.terminationGracePeriodSeconds) (int $drain)) }}{{ end }}
{{- end }}
