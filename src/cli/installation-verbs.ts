import path from 'node:path'
import { Command, Option } from 'commander'
import { z } from 'zod'
import { mostSlots, mostTokens } from '../contract/names.ts'
import { traceKinds, type TraceKind } from '../contract/uninstall.ts'
import { countOption, group, VerbError, type VerbContext } from './agent-session.ts'
import type { CliIo } from './io.ts'

const installGiven = z.object({
  daemon: z.boolean().default(false),
  user: z.string().max(255).optional(),
  env: z.array(z.string()).default([]),
  dryRun: z.boolean().default(false),
})

/** The headless service: launchd starts the agent and keeps it. */
export function installVerb({ io, end }: VerbContext): Command {
  return new Command('install')
    .description('run the agent as a service of launchd, or change or update the installed one; models keep serving')
    .argument('[flags...]', 'flags of the agent, after --')
    .option('--daemon', 'run as a LaunchDaemon, even with nobody logged in; needs sudo')
    .option('--user <name>', 'with --daemon: the user to run the agent as; default: the user who called sudo')
    .option('--env <name=value>', 'an environment variable for the agent; may be repeated', collected)
    .option('--dry-run', 'print the file and do nothing')
    .action(async (flags: string[], options: unknown) => {
      const { env, user, ...switches } = installGiven.parse(options)
      const { install } = await import('./service/install.ts')
      end(await install({ ...switches, user, flags, env: Object.fromEntries(env.map(variable)) }, io))
    })
}

const collected = (one: string, before: readonly string[] = []): string[] => [...before, one]

function variable(text: string): [string, string] {
  const [, name, value] = /^([A-Za-z_]\w*)=([^]*)$/.exec(text) ?? []
  if (name === undefined || value === undefined) {
    throw new VerbError(`--env wants NAME=VALUE, not ${JSON.stringify(text)}.`)
  }
  return [name, value]
}

const headlessGiven = z.object({
  json: z.boolean().default(false),
  follow: z.boolean().default(false),
  lines: z.number().default(200),
})

/** What `install` made, after it was made. */
export function headlessVerb({ io, end }: VerbContext): Command {
  const status = new Command('status')
    .description('show whether the service is installed and running, and with which command and flags')
    .option('--json', 'print the answer as JSON')
    .action(async (options: unknown) => {
      const { status: say } = await import('./service/service.ts')
      end(await say(io, headlessGiven.parse(options).json))
    })
  const restart = new Command('restart')
    .description('restart the agent of the service; its model servers keep running')
    .action(async () => {
      const { restart: begin } = await import('./service/service.ts')
      end(await begin(io))
    })
  const logs = new Command('logs')
    .description("print the service's own log")
    .option('-f, --follow', 'keep printing new lines')
    .addOption(countOption('-n, --lines <count>', 'how many lines', 100_000).default(200))
    .action(async (options: unknown) => {
      const { logs: print } = await import('./service/service.ts')
      end(await print(io, headlessGiven.parse(options)))
    })
  return group('service', 'show or restart the service that install made, or print its log', [status, restart, logs])
}

const uninstallGiven = z.object({ keepServing: z.boolean().default(false), yes: z.boolean().default(false) })

const everythingGiven = z.object({
  everything: z.boolean().default(false),
  dryRun: z.boolean().default(false),
  json: z.boolean().default(false),
  models: z.boolean().default(false),
  keep: z.array(z.string()).default([]),
  stateDir: z.string(),
  modelStore: z.string().optional(),
  logFile: z.string().optional(),
})

/** Takes away what `install` made, or everything that was ever written. */
export const uninstallVerb = ({ io, end, defaultStateDir }: VerbContext): Command =>
  new Command('uninstall')
    .description('remove the service: withdraw, let requests finish, stop the servers; models and settings stay')
    .option('--keep-serving', 'leave the servers and their endpoints as they are, for the next agent to adopt')
    .option('--everything', 'remove everything that Metalbar wrote, here and in the cluster; lists it first and asks')
    .option('--dry-run', 'with --everything: only list it')
    .option('-y, --yes', 'do not ask before stopping models that serve; with --everything: remove what is ticked')
    .option('--models', 'with --everything: the downloaded models too')
    .option('--keep <kind...>', `with --everything: keep these kinds: ${traceKinds.join(', ')}`)
    .option('--json', 'with --everything: print it as JSON')
    .option('--state-dir <folder>', 'state folder of the agent', defaultStateDir)
    .option('--model-store <folder>', 'with --everything: where the models are, if no agent is running to say so')
    .option('--log-file <file>', "with --everything: the agent's log, if no agent is running to say so")
    .action(async (options: unknown) => {
      const { keepServing, yes } = uninstallGiven.parse(options)
      const { everything, dryRun, json, ...given } = everythingGiven.parse(options)
      if (!everything) {
        const { uninstall } = await import('./service/service.ts')
        end(await uninstall(io, { keepServing, isConfirmed: yes }))
        return
      }
      const keep = given.keep.map(traceKind)
      const also = (['models'] as const).filter((kind) => given[kind])
      const inFolder = (file: string | undefined) => (file === undefined ? undefined : path.resolve(io.cwd, file))
      const stateDir = path.resolve(io.cwd, given.stateDir)
      const stated = { modelStore: inFolder(given.modelStore), logFile: inFolder(given.logFile) }
      const { uninstallEverything } = await import('./uninstall.ts')
      end(await uninstallEverything(io, { stateDir, stated, also, keep, yes, dryRun, json }))
    })

function traceKind(word: string): TraceKind {
  const kind = traceKinds.find((one) => one === word)
  if (kind !== undefined) return kind
  throw new VerbError(`--keep ${JSON.stringify(word)} is not one of the kinds: ${traceKinds.join(', ')}.`)
}

const migrateGiven = z.object({
  dryRun: z.boolean().default(false),
  yes: z.boolean().default(false),
  plist: z.string().optional(),
  undo: z.boolean().default(false),
})

/** From LLMKube's Go agent to this one, and back. */
export function migrateVerb({ io, end }: VerbContext): Command {
  return new Command('migrate')
    .description("replace LLMKube's Go agent with this agent: prints the settings that it becomes, and asks")
    .argument('[flags...]', 'flags of this agent, after --; they win over those of the Go agent')
    .option('--dry-run', 'only print what would be done')
    .option('-y, --yes', 'do not ask for confirmation')
    .option('--plist <file>', 'plist of the Go agent; default: the one that launchd would load')
    .addOption(new Option('--undo', 'go back to the Go agent').conflicts(['dryRun', 'plist']))
    .action(async (flags: string[], options: unknown) => {
      const { yes, plist, ...switches } = migrateGiven.parse(options)
      const { migrateHere } = await import('./migrate.ts')
      const file = plist === undefined ? undefined : path.resolve(io.cwd, plist)
      end(await migrateHere({ ...switches, isConfirmed: yes, plist: file, flags }, io))
    })
}

const powerGiven = z.object({
  user: z.string().max(255).optional(),
  json: z.boolean().default(false),
  dryRun: z.boolean().default(false),
})

/** Permission to measure power: a rule of sudo, which needs no agent. */
export function powerVerb({ io, end }: VerbContext): Command {
  const verb = (name: string, description: string): Command =>
    new Command(name)
      .description(description)
      .option('--user <name>', 'user whose agent measures power; default: you, or with sudo the user who called it')
  const status = verb('status', 'show whether sudo lets the agent measure power, and by which rule')
    .option('--json', 'print the answer as JSON')
    .action(async (options: unknown) => {
      onlyOnMacs(io)
      const { user, json } = powerGiven.parse(options)
      const { ruleStatus, sudoUser } = await import('./power-rule.ts')
      end(await ruleStatus(await sudoUser(user, io.env), io, json))
    })
  const install = verb('install', 'let the agent run powermetrics without a password, with exact command lines only')
    .option('--dry-run', 'print the rule and do nothing')
    .action(async (options: unknown) => {
      const { user, dryRun } = powerGiven.parse(options)
      if (!dryRun) onlyOnMacs(io)
      const { installRule, sudoUser } = await import('./power-rule.ts')
      const { fragmentFor } = await import('../agent-core/power/sudoers.ts')
      const whose = await sudoUser(user, io.env)
      if (dryRun) io.stdout.write(fragmentFor(whose))
      else end(await installRule(whose, io))
    })
  const remove = verb('remove', 'remove that rule').action(async (options: unknown) => {
    onlyOnMacs(io)
    const { removeRule, sudoUser } = await import('./power-rule.ts')
    end(await removeRule(await sudoUser(powerGiven.parse(options).user, io.env), io))
  })
  return group('power', 'show, install or remove the permission to measure power', [status, install, remove])
}

function onlyOnMacs({ platform }: CliIo): void {
  if (platform !== 'darwin') throw new VerbError('Power is read from powermetrics, which only macOS has.')
}

const fitOptions = z
  .object({
    json: z.boolean().default(false),
    context: z.number().optional(),
    slots: z.number().optional(),
    kv: z
      .string()
      .regex(/^[a-z0-9_]+$/i, '--kv must be a cache type such as q8_0')
      .optional(),
    sourceSecret: z.string().optional(),
    namespace: z.string().optional(),
    stateDir: z.string(),
  })
  .refine(({ namespace, sourceSecret }) => namespace === undefined || sourceSecret !== undefined, {
    error: '--namespace is that of the Secret, so it needs --source-secret',
  })

export function fitVerb({ io, end, defaultStateDir }: VerbContext): Command {
  return new Command('fit')
    .description(
      'tell whether a model fits on this machine, and what would make it fit; uses the settings and models of the running agent, if there is one',
    )
    .argument('<model>', 'a GGUF file, an MLX folder, or a source such as hf://owner/name')
    .addOption(countOption('--context <tokens>', 'context size in tokens; default: 2048, as for the agent', mostTokens))
    .addOption(countOption('--slots <number>', 'requests at once; default: what llama-server chooses', mostSlots))
    .option('--kv <type>', 'type of the KV cache; default: f16')
    .option('--source-secret <name>', 'Secret whose Hugging Face token opens a private source; needs a running agent')
    .option(
      '-n, --namespace <namespace>',
      'namespace of that Secret; default: the one that the agent watches, or default',
    )
    .option('--state-dir <folder>', 'state folder of the agent', defaultStateDir)
    .option('--json', 'print the answer as JSON, in bytes')
    .action(async (given: string, options: unknown) => {
      const parsed = fitOptions.safeParse(options)
      if (!parsed.success) throw new VerbError(`${parsed.error.issues[0]?.message ?? 'The options are not valid'}.`)
      const { fit } = await import('./fit.ts')
      const stateDir = path.resolve(io.cwd, parsed.data.stateDir)
      end(await fit(given, { ...parsed.data, stateDir }, io))
    })
}
