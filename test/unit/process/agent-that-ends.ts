import { join } from 'node:path'
import { hostPlatform } from '../../../src/agent-core/platform/host.ts'
import { launchEnvironment } from '../../../src/agent-core/process/launch.ts'
import { Servers } from '../../../src/agent-core/process/servers.ts'
import { sampleScriptArgs, sampleServerPath } from '../../support/sample-servers/sample.ts'

/** A process that starts one server in the folder it is given, says so once that is ready, and then has nothing left to do. */
const folder = process.argv[2] ?? ''
const ignore = () => undefined
const servers = new Servers({
  platform: hostPlatform(),
  log: { debug: ignore, info: ignore, warn: ignore, error: ignore },
})
const logFile = join(folder, 'server.log')
const keepAlive = setInterval(ignore, 60_000)
servers.onChange((_, state) => {
  if (state.kind !== 'ready') return
  process.stdout.write(JSON.stringify({ pid: state.pid, logFile }))
  clearInterval(keepAlive)
})
servers.start('a/b', {
  executable: sampleServerPath,
  argv: (port) => ['--port', String(port), ...sampleScriptArgs({ noise: { lines: 1, everyMs: 20 } })],
  env: launchEnvironment(),
  workingDirectory: join(folder, 'work'),
  logFile,
  port: { kind: 'ephemeral' },
})
