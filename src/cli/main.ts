import { defaultModelStore } from '../agent-core/models/default-store.ts'
import { defaultStateDir } from '../agent-core/state/state-folder.ts'
import { buildInfo, versionText } from '../agent-core/agent/build-info.ts'
import type { FlagDefaults } from './flags.ts'
import { FlagError } from '../agent-core/util/go-flags.ts'
import { exitCodes, terminalOf, type CliIo } from './io.ts'

/**
 * The command `metal-agent`: flags alone run the agent, as with the Go agent; a verb talks to one that runs. Answers the exit code. Code
 * that only one verb needs is loaded when that verb runs.
 */
export async function main(args: readonly string[], given: CliIo): Promise<number> {
  const io: CliIo = { ...given, stdout: terminalOf(given.stdout), stderr: terminalOf(given.stderr) }
  const defaults: FlagDefaults = {
    modelStore: defaultModelStore(io.platform, io.env, io.homeDir),
    stateDir: defaultStateDir(io.platform, io.env, io.homeDir),
  }
  const [first, ...rest] = args
  if (first === 'gateway') {
    const { runGatewayVerb } = await import('./gateway.ts')
    return runGatewayVerb(rest, io)
  }
  if (first !== undefined && !first.startsWith('-')) {
    const { runVerb } = await import('./verbs.ts')
    return runVerb(args, io, defaults)
  }
  try {
    return await runFlags(args, io, defaults)
  } catch (error) {
    if (!(error instanceof FlagError)) throw error
    io.stderr.write(`metal-agent: ${error.message}\n`)
    return exitCodes.wrongUsage
  }
}

async function runFlags(args: readonly string[], io: CliIo, defaults: FlagDefaults): Promise<number> {
  const { parseRunArguments } = await import('./run-settings.ts')
  const request = parseRunArguments(args, defaults, io.cwd)
  switch (request.kind) {
    case 'version':
      io.stdout.write(versionText(buildInfo))
      return exitCodes.done
    case 'help': {
      const { runVerb } = await import('./verbs.ts')
      return runVerb(['help', ...(request.about === undefined ? [] : [request.about])], io, defaults)
    }
    case 'run': {
      const { runAgent } = await import('./run.ts')
      return runAgent(request.settings, io)
    }
  }
}
