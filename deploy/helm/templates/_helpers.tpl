{{/* The name of the objects: that of the release, with strongroom in it. */}}
{{- define "strongroom.name" -}}
{{- if contains "strongroom" .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-strongroom" (.Release.Name | trunc 29 | trimSuffix "-") -}}
{{- end -}}
{{- end -}}

{{/* By these the service, the budget and the network policies find pods. Called with the context and the component. */}}
{{- define "strongroom.selector" -}}
app.kubernetes.io/name: strongroom
app.kubernetes.io/instance: {{ .context.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "strongroom.labels" -}}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: strongroom
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "strongroom.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* What holds for every pod. */}}
{{- define "strongroom.pod" -}}
serviceAccountName: {{ include "strongroom.name" . }}
automountServiceAccountToken: false
# Services of the namespace would become variables, such as STRONGROOM_PORT.
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 1000
  runAsGroup: 1000
  # The files of the secrets belong to this group.
  fsGroup: 1000
  # It allows Landlock and a filter of the process's own, which stand around tenants' code.
  seccompProfile:
    type: RuntimeDefault
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* What holds for every container. */}}
{{- define "strongroom.container" -}}
image: {{ include "strongroom.image" . | quote }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
volumeMounts:
  - name: secrets
    mountPath: /run/secrets/strongroom
    readOnly: true
  - name: tmp
    mountPath: /tmp
{{- end -}}

{{/* Secrets are files: the environment of a process can be read in /proc. Called with keys of a secret. */}}
{{- define "strongroom.secretFiles" -}}
{{- range . }}
- name: {{ upper . }}_FILE
  value: /run/secrets/strongroom/{{ . }}
{{- end }}
{{- end -}}

{{- define "strongroom.secretItems" -}}
{{- range . }}
- key: {{ . }}
  path: {{ . }}
{{- end }}
{{- end -}}

{{- define "strongroom.tmp" -}}
- name: tmp
  emptyDir:
    medium: Memory
    sizeLimit: 64Mi
{{- end -}}

{{/* A migration needs the root key where the secret has it, and no other of the servers' secrets. */}}
{{- define "strongroom.migrationKeys" -}}
{{- if has "master_key" .Values.secretKeys }}master_key {{ end }}database_url
{{- end -}}

{{- define "strongroom.migrationPod" -}}
metadata:
  labels: {{- include "strongroom.selector" (dict "context" . "component" "migrate") | nindent 4 }}
spec:
  {{- include "strongroom.pod" . | nindent 2 }}
  restartPolicy: OnFailure
  containers:
    - name: migrate
      {{- include "strongroom.container" . | nindent 6 }}
      args: [migrate]
      env: {{- include "strongroom.secretFiles" (splitList " " (include "strongroom.migrationKeys" .)) | trim | nindent 8 }}
      resources: {{- toYaml .Values.migration.resources | nindent 8 }}
  volumes:
    # The root key is that of the servers; the address of the database names the owner of the tables.
    - name: secrets
      projected:
        # 0440 in octal.
        defaultMode: 288
        sources:
          {{- if has "master_key" .Values.secretKeys }}
          - secret:
              name: {{ .Values.existingSecret }}
              items: {{- include "strongroom.secretItems" (list "master_key") | trim | nindent 16 }}
          {{- end }}
          - secret:
              name: {{ .Values.migration.existingSecret }}
              items: {{- include "strongroom.secretItems" (list "database_url") | trim | nindent 16 }}
    {{- include "strongroom.tmp" . | nindent 4 }}
{{- end -}}
