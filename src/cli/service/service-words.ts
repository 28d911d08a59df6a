import type { Started } from '../../installation/service/hand-over.ts'
import type { LastExit } from '../../installation/service/service-plan.ts'

/** One sentence, or two: what became of a start. `servers`: those that ran before it. */
export function startedText(started: Started, servers: readonly number[]): string {
  switch (started.kind) {
    case 'answers': {
      const kept = servers.filter((pid) => started.look.serverPids.includes(pid)).length
      return `It runs as process ${started.pid} (metal-agent ${started.look.version}).${serversText(servers.length, kept)}`
    }
    case 'waits':
      return `It runs as process ${started.pid} and waits: process ${started.holder}, such as the app, serves from its state folder. It takes over when that ends.`
    case 'silent':
      return `It runs as process ${started.pid} and does not answer yet: metal-agent service logs says what it does.`
    case 'ended':
      return `It ended at once${started.lastExit ? ` (${lastExitText(started.lastExit)})` : ''}: metal-agent service logs says why.`
  }
}

function serversText(before: number, kept: number): string {
  if (before === 0) return ''
  const which =
    before === 1 ? 'The model server that ran' : `${kept === before ? 'All' : kept} of ${before} model servers`
  return before === 1 && kept === 0
    ? ' The model server that ran is not taken over yet: see metal-agent status.'
    : ` ${which} went on without a restart.`
}

export const lastExitText = (exit: LastExit): string =>
  'code' in exit ? `exit code ${exit.code}` : `signal ${exit.signal}`
