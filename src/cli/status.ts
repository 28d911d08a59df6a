import { socketPathFor } from '../agent-core/state/socket-path.ts'
import { LinkError } from '../contract/client.ts'
import type { AgentSnapshot } from '../contract/snapshot.ts'
import { connectToAgent } from '../serve/client/agent-client.ts'
import { exitCodes, type CliIo } from './io.ts'
import { renderStatus } from './status-table.ts'

export interface StatusRequest {
  readonly json: boolean
  readonly stateDir: string
}

/** Prints what the agent of this state folder does. Exit codes: 0 printed, 1 it does not answer, 3 none is running. */
export async function status({ json, stateDir }: StatusRequest, io: CliIo): Promise<number> {
  try {
    const snapshot = await readSnapshot(stateDir, io.temporaryDir)
    io.stdout.write(json ? `${JSON.stringify(snapshot, null, 2)}\n` : renderStatus(snapshot, styleOf(io)))
    return exitCodes.done
  } catch (error) {
    if (!(error instanceof LinkError)) throw error
    io.stderr.write(`metal-agent: ${error.message}\n`)
    return error.code === 'gone' ? exitCodes.noAgent : exitCodes.failed
  }
}

async function readSnapshot(stateDir: string, temporaryDir: string): Promise<AgentSnapshot> {
  const client = await connectToAgent({ socketPath: socketPathFor(stateDir, temporaryDir), stateDir })
  try {
    return await client.snapshot()
  } finally {
    await client.close()
  }
}

function styleOf({ stdout, env, platform }: CliIo) {
  const locale = env['LC_ALL'] || env['LC_CTYPE'] || env['LANG']
  return {
    columns: stdout.isTTY === true ? stdout.columns : undefined,
    colour: stdout.isTTY === true && !env['NO_COLOR'],
    unicode: locale === undefined ? platform === 'darwin' : /utf-?8/i.test(locale),
  }
}
