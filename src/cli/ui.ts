import { socketPathFor } from '../agent-core/state/socket-path.ts'
import { LinkError } from '../contract/client.ts'
import { connectToAgent } from '../serve/client/agent-client.ts'
import { exitCodes, type CliIo } from './io.ts'

export interface UiRequest {
  readonly port: string | undefined
  readonly stateDir: string
}

/** Prints a URL of the window of the agent of this state folder. Exit codes: 0 printed, 1 refused, 2 no port, 3 no agent. */
export async function ui({ port, stateDir }: UiRequest, io: CliIo): Promise<number> {
  const number = Number(port ?? 0)
  if (!/^\d{1,5}$/.test(port ?? '0') || number > 65_535) {
    io.stderr.write(`metal-agent: --port must be a port number from 0 to 65535, not ${JSON.stringify(port)}.\n`)
    return exitCodes.wrongUsage
  }
  try {
    await using client = await connectToAgent({ socketPath: socketPathFor(stateDir, io.temporaryDir), stateDir })
    io.stdout.write(`${await client.openWindow(number)}\n`)
    return exitCodes.done
  } catch (error) {
    if (!(error instanceof LinkError)) throw error
    io.stderr.write(`metal-agent: ${error.message}\n`)
    return error.code === 'gone' ? exitCodes.noAgent : exitCodes.failed
  }
}
