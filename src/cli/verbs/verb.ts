import path from 'node:path'
import { Command } from 'commander'
import { z } from 'zod'
import { LinkError } from '../../contract/client.ts'
import type { CommandInput, ServiceRef } from '../../contract/commands.ts'
import type { AgentClient } from '../../serve/client/agent-client.ts'
import { connect, send, withAgent } from '../agent-session.ts'
import type { CliIo } from '../io.ts'
import { serviceNamed } from '../service-name.ts'

export interface VerbContext {
  readonly io: CliIo
  readonly defaultStateDir: string
  /** Takes the exit code of the verb that was run. */
  readonly end: (code: number) => void
}

const commonOptions = z.object({ json: z.boolean().default(false), stateDir: z.string() })

/** What every verb that talks to an agent takes. */
export function agentVerb(name: string, description: string, context: VerbContext): Command {
  return new Command(name)
    .description(description)
    .option('--json', 'print the answer as JSON')
    .option('--state-dir <folder>', 'state folder of the agent', context.defaultStateDir)
}

/** The namespace of the service that a verb names, as kubectl takes it. */
export const namespaceOption = [
  '-n, --namespace <namespace>',
  'of the service, where its name alone is not enough',
] as const

const namespaceGiven = z.object({ namespace: z.string().optional() })

export const namespaceIn = (options: unknown): string | undefined => namespaceGiven.parse(options).namespace

/** Runs `work` with the options that every verb takes, and a connection. */
export async function run(
  { io, end }: VerbContext,
  options: unknown,
  work: (agent: AgentClient, given: { json: boolean; connect: () => Promise<AgentClient> }) => Promise<number>,
): Promise<void> {
  const { json, stateDir } = commonOptions.parse(options)
  const session = { io, stateDir: path.resolve(io.cwd, stateDir) }
  end(await withAgent(session, (agent) => work(agent, { json, connect: () => connect(session) })))
}

/** What the agent of these options answers; undefined where none runs. */
export async function ifAgentRuns<T>(
  { io }: VerbContext,
  options: unknown,
  ask: (agent: AgentClient) => Promise<T>,
): Promise<T | undefined> {
  try {
    await using agent = await connect({ io, stateDir: path.resolve(io.cwd, commonOptions.parse(options).stateDir) })
    return await ask(agent)
  } catch (error) {
    if (error instanceof LinkError && error.code === 'gone') return undefined
    throw error
  }
}

/** One command about the service that a person names. */
export async function sendAbout(
  context: VerbContext,
  name: string,
  options: unknown,
  command: (service: ServiceRef) => CommandInput,
): Promise<void> {
  await run(context, options, async (agent, { json }) => {
    const { services } = await agent.snapshot()
    return await send(agent, command(serviceNamed(name, services, namespaceIn(options))), { io: context.io, json })
  })
}

/** One command about the whole agent. */
export async function sendPlain(context: VerbContext, options: unknown, command: CommandInput): Promise<void> {
  await run(context, options, (agent, { json }) => send(agent, command, { io: context.io, json }))
}
