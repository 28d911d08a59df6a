import path from 'node:path'
import { buildInfo } from '../agent-core/agent/build-info.ts'
import { dropRoot, runGateway } from '../gateway/gateway.ts'
import { exitCodes, type CliIo } from './io.ts'

/** `metal-agent gateway --socket PATH`, which only an agent starts: the process that forwards requests to engines. Answers the exit code. */
export async function runGatewayVerb(
  [flag, socketPath = '', beside]: readonly string[],
  { stderr }: CliIo,
): Promise<number> {
  if (flag !== '--socket' || !path.isAbsolute(socketPath)) {
    stderr.write('metal-agent: the agent starts its gateway itself.\n')
    return exitCodes.wrongUsage
  }
  const log = (text: string): void => void stderr.write(`${new Date().toISOString()} ${text}\n`)
  const isBeside = beside === '--beside'
  await runGateway({ socketPath, version: buildInfo.version, log, isBeside, onListening: dropRoot })
  return exitCodes.done
}
