import type { MigrationPlan } from './plan.ts'

const section = (title: string, lines: readonly string[]): string =>
  lines.length === 0 ? '' : `\n${title}:\n${lines.map((line) => `  ${line}\n`).join('')}`

/** The plan as a person reads it. */
export function planText(plan: MigrationPlan): string {
  const { transfers, strays } = plan
  const restarts = transfers.map(({ service, server }) =>
    server === undefined
      ? `${service.namespace}/${service.name} is started: nothing answers for it now.`
      : `${service.namespace}/${service.name} is restarted once (process ${server.pid}, port ${server.port}).`,
  )
  return [
    section('Kept', plan.kept),
    section('Different from now on', plan.changed),
    section('Restarts', [
      ...restarts,
      ...strays.map(({ pid, port }) => `Process ${pid} (port ${port}) serves nothing that is published and is ended.`),
      ...(transfers.length > 0 ? [whyOnce] : []),
    ]),
    section('To know', plan.notes),
    section('Would not be served here', plan.refusals),
    section('In the way', plan.problems),
  ]
    .join('')
    .replace(/^\n/, '')
}

const whyOnce =
  "A server of the Go agent cannot be taken over as it runs: it belongs to that agent's process group, which launchd ends with it, and its output goes nowhere. One model after the other changes hands while the others go on."
