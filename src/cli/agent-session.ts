import type { z } from 'zod'
import { socketPathFor } from '../agent-core/state/socket-path.ts'
import { LinkError, type AgentLink } from '../contract/client.ts'
import { command, type CommandInput, type CommandName, type CommandResult } from '../contract/commands.ts'
import { connectToAgent, type AgentClient } from '../serve/client/agent-client.ts'
import { exitCodes, type CliIo } from './io.ts'

/** A request that makes no sense to the agent as it is; one sentence. */
export class VerbError extends Error {
  override readonly name = 'VerbError'
}

export interface AgentSessionOptions {
  readonly io: CliIo
  readonly stateDir: string
}

/** Runs `work` with a connection to the agent of this state folder, and answers its exit code or that of the failed link it says. */
export const withAgent = (
  { io, stateDir }: AgentSessionOptions,
  work: (agent: AgentClient) => Promise<number>,
): Promise<number> =>
  sayingLinkErrors(io, async () => {
    await using agent = await connect({ io, stateDir })
    return await work(agent)
  })

/** Answers the exit code of `work`, or that of the failed link, whose sentence goes to standard error. */
export async function sayingLinkErrors(io: CliIo, work: () => Promise<number>): Promise<number> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof LinkError)) throw error
    io.stderr.write(`metal-agent: ${error.message}\n`)
    return error.code === 'gone' ? exitCodes.noAgent : exitCodes.failed
  }
}

/** Throws LinkError. */
export const connect = ({ io, stateDir }: AgentSessionOptions): Promise<AgentClient> =>
  connectToAgent({ socketPath: socketPathFor(stateDir, io.temporaryDir), stateDir })

/** Sends one command and says how it went; what was refused names the way that is left. Throws VerbError and LinkError. */
export async function send(
  agent: Pick<AgentLink, 'command'>,
  input: CommandInput,
  { io, json }: { io: CliIo; json: boolean },
): Promise<number> {
  const checked = command.safeParse(input)
  if (!checked.success) throw new VerbError(`The agent would not understand this: ${firstIssue(checked.error)}.`)
  const result = await agent.command(checked.data)
  if (json) io.stdout.write(`${JSON.stringify(result)}\n`)
  else if (isDone(result)) io.stdout.write(`${result.message}\n`)
  else {
    io.stderr.write(`metal-agent: ${result.message}\n`)
    if (result.outcome === 'refused') {
      const left = result.instead?.command.name
      // A move that another verb offers is not that verb repeated.
      const isOther = (left === 'selectContext' || left === 'updateSettings') && input.name !== left
      const flag = left === undefined || isOther ? undefined : repeatedWith[left]
      if (flag !== undefined) io.stderr.write(`${result.instead?.label ?? ''}: repeat it with ${flag}.\n`)
      // What it was refused is left to somebody who may: the YAML alone is on standard output.
      if (result.yaml !== undefined) io.stdout.write(result.yaml)
    }
  }
  return exitCodeOf(result)
}

/** How the command that is left is written. */
const repeatedWith: Partial<Record<CommandName, string>> = {
  stop: '--here',
  deleteModel: '--even-if-managed',
  selectContext: '--anyway',
  updateSettings: '--anyway',
}

const firstIssue = ({ issues: [issue] }: z.ZodError): string =>
  `${issue?.path.join('.') ?? ''}: ${issue?.message ?? ''}`.replace(/^: /, '')

const isDone = ({ outcome }: CommandResult): boolean => outcome === 'done' || outcome === 'accepted'

function exitCodeOf({ outcome }: CommandResult): number {
  switch (outcome) {
    case 'done':
    case 'accepted':
      return exitCodes.done
    case 'refused':
      return exitCodes.refused
    case 'notAvailable':
      return exitCodes.notAvailable
    case 'failed':
      return exitCodes.failed
  }
}
