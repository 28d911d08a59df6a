import path from 'node:path'
import type { Platform, ProcessFacts } from '../../agent-core/platform/platform.ts'
import { goAgentProgram, type GoAgentJob } from './go-agent-job.ts'

/** A model server that a Go agent started: it stays in that agent's process group. */
export interface GoServer extends Pick<ProcessFacts, 'pid' | 'startTime'> {
  readonly port: number
}

export interface GoAgentProcess extends Pick<
  ProcessFacts,
  'pid' | 'startTime' | 'groupId' | 'commandLine' | 'suspended'
> {
  readonly servers: readonly GoServer[]
}

/** Every Go agent of this user that runs, and what it started. `ours` is the pid of our own agent. */
export async function findGoAgents(
  platform: Pick<Platform, 'processes'>,
  job: Pick<GoAgentJob, 'program'> | undefined,
  ours: number | undefined,
): Promise<GoAgentProcess[]> {
  const processes = await platform.processes()
  const agents = processes.filter(({ pid, commandLine }) => pid !== ours && isGoAgent(commandLine, job))
  const pids = new Set(agents.map(({ pid }) => pid))
  return agents.map(({ pid, startTime, groupId, commandLine, suspended }) => ({
    pid,
    startTime,
    groupId,
    commandLine,
    suspended,
    servers: processes.flatMap((process) => {
      const port = portOf(process.commandLine)
      const isServer = process.groupId === groupId && !pids.has(process.pid) && port !== undefined
      return isServer ? [{ pid: process.pid, startTime: process.startTime, port }] : []
    }),
  }))
}

function isGoAgent(commandLine: string, job: Pick<GoAgentJob, 'program'> | undefined): boolean {
  if (job !== undefined && (commandLine === job.program || commandLine.startsWith(`${job.program} `))) return true
  const [program = '', first = '-'] = commandLine.split(' ')
  // Our own command of that name has verbs; the Go agent has flags alone.
  return path.basename(program) === goAgentProgram && first.startsWith('-')
}

/** The words behind the program; one that has a space in it counts as two, since ps does not tell them apart. */
export const argsOf = ({ commandLine }: GoAgentProcess): string[] =>
  commandLine
    .split(' ')
    .slice(1)
    .filter((word) => word !== '')

const portOf = (commandLine: string): number | undefined => {
  const at = commandLine.indexOf(' --model ')
  const ports = at === -1 ? [] : [...commandLine.slice(at).matchAll(/ --port (\d{1,5})(?= |$)/g)]
  const port = ports.at(-1)?.[1]
  return port === undefined ? undefined : Number(port)
}
