{{/*
The image of a part: (list . NAME PART), with the values of the part. A digest takes the place of the tag.
*/}}
{{- define "divvy.image" -}}
{{- $root := index . 0 -}}
{{- $name := index . 1 -}}
{{- $part := index . 2 -}}
{{- if $part.image -}}
{{ $part.image }}
{{- else -}}
{{- with $root.Values.registry }}{{ trimSuffix "/" . }}/{{ end -}}
{{ $name }}
{{- if $part.digest }}@{{ $part.digest }}{{ else }}:{{ $root.Values.tag | default $root.Chart.AppVersion }}{{ end -}}
{{- end -}}
{{- end -}}
