import path from 'node:path'
import { Command, Option } from 'commander'
import { z } from 'zod'
import { socketPathFor } from '../agent-core/state/socket-path.ts'
import { LinkError, type AgentLink } from '../contract/client.ts'
import {
  command,
  type CommandInput,
  type CommandName,
  type CommandResult,
  type ServiceRef,
} from '../contract/commands.ts'
import type { ServiceView } from '../contract/service.ts'
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
  if (!checked.success) throw new VerbError(`The agent would reject this: ${firstIssue(checked.error)}.`)
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
      if (flag !== undefined) io.stderr.write(`${result.instead?.label ?? ''}: run it again with ${flag}.\n`)
      // What it was refused is left to somebody who may: the YAML alone is on standard output.
      if (result.yaml !== undefined) io.stdout.write(result.yaml)
    }
  }
  return exitCodeOf(result)
}

/** How the command that is left is written. */
const repeatedWith: Partial<Record<CommandName, string>> = {
  stop: '--here',
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
    case 'failed':
      return exitCodes.failed
  }
}

/** `NAME`, with its namespace beside it where given, or `NAMESPACE/NAME`, among what the agent shows. Throws VerbError. */
export function serviceNamed(
  text: string,
  services: readonly Pick<ServiceView, 'namespace' | 'name'>[],
  given?: string,
): ServiceRef {
  const slash = text.indexOf('/')
  const inName = slash === -1 ? undefined : text.slice(0, slash)
  const called = text.slice(slash + 1)
  if (given !== undefined && inName !== undefined && inName !== given) {
    throw new VerbError(`The name ${text} and --namespace ${given} contradict each other: give one of them.`)
  }
  const wanted = inName ?? given
  const matches = services.filter(
    ({ namespace, name }) => name === called && (wanted === undefined || namespace === wanted),
  )
  const [match, another] = matches
  if (match === undefined) {
    const known = services.map(({ namespace, name }) => `${namespace}/${name}`).join(', ')
    const where = given !== undefined && inName === undefined ? ` in namespace ${given}` : ''
    throw new VerbError(
      `There is no service ${text}${where} on this machine; ${known ? `it has ${known}` : 'it has none'}.`,
    )
  }
  if (another !== undefined) {
    const choices = matches.map(({ namespace, name }) => `${namespace}/${name}`).join(' or ')
    throw new VerbError(`Several services are called ${text}: use ${choices}.`)
  }
  return { namespace: match.namespace, name: match.name }
}

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

/** An option that counts something: its reader throws VerbError. */
export function countOption(flags: string, description: string, most = 999_999_999): Option {
  const option = new Option(flags, description)
  return option.argParser((text) => {
    const count = /^\d{1,9}$/.test(text) ? Number(text) : 0
    if (count >= 1 && count <= most) return count
    throw new VerbError(
      `${option.long ?? flags} must be a whole number from 1 to ${most}, not ${JSON.stringify(text)}.`,
    )
  })
}

/** The namespace of the service that a verb names, as kubectl takes it. */
export const namespaceOption = [
  '-n, --namespace <namespace>',
  'namespace of the service, if its name is ambiguous',
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

/** A verb that has verbs of its own; the first of them is meant where none is named. */
export function group(name: string, description: string, verbs: readonly [Command, ...Command[]]): Command {
  const [first, ...others] = verbs
  const parent = new Command(name).description(description).addCommand(first, { isDefault: true })
  for (const verb of others) parent.addCommand(verb)
  return parent
}
