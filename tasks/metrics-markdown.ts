import { labelNames, metricPrefix, type MetricRow, metricTable } from '../src/agent-core/observability/metric-table.ts'

/** Every metric of the agent, as one page. */
export function metricsMarkdown(): string {
  return [
    '# Metrics',
    '',
    "`/metrics` on the health port (`--port`, by default 9090, on 127.0.0.1) is in Prometheus' text format. A figure that is not known has no",
    'series: it is never 0 in its place, and never an old one. Services that are gone lose their series at the next scrape, and at most 100',
    'have any: `metrics_services_left_out` says how many have none. This page is made by `node tasks/docs.ts` from the table of metrics.',
    '',
    'Power is measured more often, and runtimes are asked for their figures, while somebody looks; a scrape counts as a look. For a Prometheus on this',
    'Mac, or at the end of `ssh -L 9090:127.0.0.1:9090`:',
    '',
    '```yaml',
    'scrape_configs:',
    '  - job_name: metalbar',
    '    static_configs:',
    '      - targets: [127.0.0.1:9090]',
    '```',
    '',
    '## From a Prometheus in the cluster',
    '',
    'A second listener, off by default, answers only `/metrics`, at an address of the network, to clients that have its token:',
    '',
    '```sh',
    '(umask 077; openssl rand -hex 32 > ~/.metalbar-metrics-token)',
    'metal-agent --metrics-address 192.168.1.20:9091 --metrics-token-file ~/.metalbar-metrics-token',
    '```',
    '',
    'The address is one of this Mac, or `0.0.0.0` for all of them. The file is read at each scrape, so a new token counts at once. A file that',
    'another user may open, or that holds no token, lets nobody in, and the log says so. Nothing is encrypted: keep the way to those who may read',
    'the figures by a firewall or a tunnel. The port on 127.0.0.1 stays as it is.',
    '',
    'Give the token to Prometheus as a Secret (`kubectl -n monitoring create secret generic metalbar-metrics --from-file=token=...`) and mount it:',
    '',
    '```yaml',
    'scrape_configs:',
    '  - job_name: metalbar',
    '    authorization:',
    '      credentials_file: /etc/prometheus/secrets/metalbar-metrics/token',
    '    static_configs:',
    '      - targets: [192.168.1.20:9091]',
    '```',
    '',
    'The same for the Prometheus operator:',
    '',
    '```yaml',
    'apiVersion: monitoring.coreos.com/v1alpha1',
    'kind: ScrapeConfig',
    'metadata:',
    '  name: metalbar',
    '  namespace: monitoring',
    'spec:',
    '  staticConfigs:',
    "    - targets: ['192.168.1.20:9091']",
    '  authorization:',
    '    type: Bearer',
    '    credentials:',
    '      name: metalbar-metrics',
    '      key: token',
    '```',
    '',
    '## What is exported',
    '',
    'A board for Grafana: import `assets/grafana/metalbar.json` and choose the data source.',
    '',
    `Every name begins with \`${metricPrefix}\`, which is left out here, but those of OpenTelemetry. _Per service_: with the labels \`name\` and \`namespace\`.`,
    '',
    'The gateway outlives the agent and counts since its own start: `client_proxy_requests_total`, `ingress_requests_total`, `gateway_*`, `gen_ai_*`.',
    '',
    "## The Go agent's",
    '',
    "Names, types and labels are the Go agent's, so that boards and alerts made for it keep working. `process_rss_bytes` also has a `namespace`, which a",
    'rule that joins `on (name)` has to expect. A service without a server has no `process_healthy`.',
    '',
    ...rowsOf('go'),
    '## Ours',
    '',
    ...rowsOf('ours'),
    "## OpenTelemetry's",
    '',
    'Without the prefix, by the [semantic conventions for generative AI](https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-metrics/) as Prometheus writes',
    'them, per service. They count requests through the gateway whose answer says how many tokens it took: as `usage`, or as the `timings` of',
    'llama-server. A stream of `/v1/chat/completions` has `usage` if the request asks for it with `stream_options.include_usage`.',
    '',
    ...rowsOf('otel'),
    '## The process',
    '',
    'Without the prefix: `process_*` and `nodejs_*`, as prom-client names them, for processor time, memory, open resources and garbage collection',
    'of the agent itself. `nodejs_eventloop_lag_mean_seconds` and `nodejs_eventloop_lag_max_seconds` are since the last scrape.',
    '',
  ].join('\n')
}

/** A list, since a table of texts this long is read by nobody and padded to twice its size. */
function rowsOf(origin: MetricRow['origin']): string[] {
  const rows = Object.entries<MetricRow>(metricTable).filter(([, row]) => row.origin === origin)
  return [...rows.map(([name, row]) => `- \`${name}\` (${[row.type, ...labelsOf(row)].join('; ')}): ${row.help}`), '']
}

function labelsOf(row: MetricRow): string[] {
  const labels = labelNames(row).map((label) => {
    const values = row.labels?.[label]
    return values ? `\`${label}\`: ${values.map((value) => `\`${value}\``).join(', ')}` : `\`${label}\``
  })
  const ofService = ['`name`', '`namespace`']
  return ofService.every((label) => labels.includes(label))
    ? ['per service', ...labels.filter((label) => !ofService.includes(label))]
    : labels
}
