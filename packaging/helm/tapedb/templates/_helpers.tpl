{{- define "tapedb.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- /* At most 52 characters: names of pods and of the headless Service are made from it. */ -}}
{{- define "tapedb.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "tapedb.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "tapedb.selector" -}}
app.kubernetes.io/name: {{ include "tapedb.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "tapedb.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "tapedb.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "tapedb.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "tapedb.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "tapedb.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}
{{- end -}}

{{- /* The protocols beside HTTP that the server listens for, as lines "name port". */ -}}
{{- define "tapedb.ports" -}}
tape {{ .Values.ports.tape }}
{{- range $name, $port := dict "postgres" .Values.postgres "flight" .Values.flight "ilp" .Values.ilp "ilp-tcp" .Values.ilpTcp }}
{{- if $port.enabled }}
{{ $name }} {{ $port.port }}
{{- end }}
{{- end }}
{{- end -}}


{{- /* A value of the server's settings in TOML. Numbers of values are floats, which TOML tells from integers. */ -}}
{{- define "tapedb.toml" -}}
{{- if kindIs "string" . -}}{{ toJson . }}
{{- else if kindIs "bool" . -}}{{ . }}
{{- else if kindIs "slice" . -}}[{{ range $index, $entry := . }}{{ if $index }}, {{ end }}{{ toJson $entry }}{{ end }}]
{{- else -}}{{ int64 . }}
{{- end -}}
{{- end -}}

{{- /* Bytes of a quantity of Kubernetes: 512Mi, 4Gi, 4G, 1048576. */ -}}
{{- define "tapedb.bytes" -}}
{{- $text := ternary . (int64 . | toString) (kindIs "string" .) -}}
{{- $number := regexFind "^[0-9]+(\\.[0-9]+)?" $text | float64 -}}
{{- $factors := dict "" 1 "k" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000 "P" 1000000000000000 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 "Pi" 1125899906842624 -}}
{{- $unit := regexFind "[A-Za-z]*$" $text -}}
{{- if not (hasKey $factors $unit) -}}
{{- fail (printf "%q is not a quantity of bytes that this chart reads: give one such as 512Mi or 4Gi" $text) -}}
{{- end -}}
{{- mulf $number (get $factors $unit | float64) | int64 -}}
{{- end -}}

{{- define "tapedb.grace" -}}
{{- dig "shutdown_grace_seconds" 10 .Values.config | int64 -}}
{{- end -}}

{{- /* The parts of the server that have clients end one after another, each within the grace. */ -}}
{{- define "tapedb.termination" -}}
{{- $parts := 1 -}}
{{- if .Values.postgres.enabled -}}{{- $parts = add $parts 1 -}}{{- end -}}
{{- if .Values.flight.enabled -}}{{- $parts = add $parts 1 -}}{{- end -}}
{{- if dig "copy_topics" list .Values.config -}}{{- $parts = add $parts 1 -}}{{- end -}}
{{- add 20 (mul $parts (include "tapedb.grace" . | int64)) -}}
{{- end -}}

{{- define "tapedb.terminationGracePeriod" -}}
{{- if kindIs "invalid" .Values.terminationGracePeriodSeconds -}}
{{- include "tapedb.termination" . -}}
{{- else -}}
{{- .Values.terminationGracePeriodSeconds | int64 -}}
{{- end -}}
{{- end -}}

{{- /* What contradicts itself, or would have the server end at its start. */ -}}
{{- define "tapedb.check" -}}
{{- $values := .Values -}}
{{- if and (not $values.users.existingSecret) (not $values.insecureAllowAnyone) -}}
{{- fail "without users every client that reaches the server could read and delete everything: set users.existingSecret to a Secret with the file that `tapedb user` writes, or insecureAllowAnyone to true" -}}
{{- end -}}
{{- if and $values.users.existingSecret $values.insecureAllowAnyone -}}
{{- fail "users.existingSecret and insecureAllowAnyone contradict each other: remove one of them" -}}
{{- end -}}
{{- if and $values.tls.http (not $values.tls.existingSecret) -}}
{{- fail "tls.http needs a certificate: set tls.existingSecret, or tls.http to false" -}}
{{- end -}}
{{- if and $values.serviceMonitor.enabled $values.tls.http (not $values.serviceMonitor.tlsConfig) -}}
{{- fail "serviceMonitor.tlsConfig must state how Prometheus verifies the certificate, because tls.http is true: its ca and serverName, or insecureSkipVerify" -}}
{{- end -}}
{{- $taken := dict (toString $values.ports.http) "http" -}}
{{- range splitList "\n" (include "tapedb.ports" .) -}}
{{- $words := splitList " " . -}}
{{- $name := index $words 0 -}}
{{- $port := index $words 1 -}}
{{- if hasKey $taken $port -}}
{{- fail (printf "port %s is that of %s and of %s: give each a port of its own" $port (get $taken $port) $name) -}}
{{- end -}}
{{- $_ := set $taken $port $name -}}
{{- end -}}
{{- range $values.extraEnv -}}
{{- if hasPrefix "TAPEDB_SERVER_" .name -}}
{{- fail (printf "extraEnv has %s, which would override the settings that this chart writes: use the values, or config" .name) -}}
{{- end -}}
{{- end -}}
{{- $needed := include "tapedb.termination" . | int64 -}}
{{- if lt (include "tapedb.terminationGracePeriod" . | int64) $needed -}}
{{- fail (printf "terminationGracePeriodSeconds is %s, and the server would be killed while it ends: set %d or more, or shutdown_grace_seconds to less" (include "tapedb.terminationGracePeriod" .) $needed) -}}
{{- end -}}
{{- $limits := dig "limits" dict $values.config -}}
{{- $memory := dig "limits" "memory" "" $values.resources -}}
{{- if $memory -}}
{{- $queries := dig "query_bytes_max" 1073741824 $limits | int64 -}}
{{- if lt (include "tapedb.bytes" $memory | int64) (add $queries 268435456) -}}
{{- fail (printf "resources.limits.memory is %v, and queries alone may take %d bytes: set it to at least 256Mi more, or config.limits.query_bytes_max to less" $memory $queries) -}}
{{- end -}}
{{- end -}}
{{- if $values.tmp.sizeLimit -}}
{{- $disk := add (dig "query_disk_bytes_max" 17179869184 $limits | int64) (dig "upload_bytes_max" 1073741824 $limits | int64) -}}
{{- if lt (include "tapedb.bytes" $values.tmp.sizeLimit | int64) $disk -}}
{{- fail (printf "tmp.sizeLimit is %v, and the pod would be evicted before limits.query_disk_bytes_max and limits.upload_bytes_max are reached: set it to %d bytes or more, or them to less" $values.tmp.sizeLimit $disk) -}}
{{- end -}}
{{- end -}}
{{- end -}}
