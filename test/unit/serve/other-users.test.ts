import { chmod } from 'node:fs/promises'
import path from 'node:path'
import { execa } from 'execa'
import { expect, test } from 'vitest'
import { serveOnSocket } from '../../../src/serve/socket-server.ts'
import { RecordingDoor } from '../../support/carriers/recording-door.ts'
import { skipWhen } from '../../support/skip.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

skipWhen(process.getuid?.() === 0 ? undefined : 'only root can become another user')

const nobody = 65_534

/** What another user of this machine gets from the socket: the first bytes, or the code of the error. */
async function heardByNobody(socketPath: string): Promise<string> {
  const script = `
    const socket = require('node:net').connect(${JSON.stringify(socketPath)})
    socket.on('data', (bytes) => { process.stdout.write(String(bytes).slice(0, 15)); socket.destroy() })
    socket.on('error', (error) => process.stdout.write(error.code))`
  const { stdout } = await execa(process.execPath, ['-e', script], { uid: nobody, gid: nobody, cwd: '/', env: {} })
  return stdout
}

test('another user of this machine is kept out by the folder and by the socket, each for itself', async () => {
  await using folder = await temporaryFolder()
  const socketPath = path.join(folder.dir, 'agent.sock')
  const options = { socketPath, stateDir: folder.dir, version: '1', door: new RecordingDoor() }
  const result = await serveOnSocket({
    ...options,
    onError: (error) => {
      throw error
    },
  })
  if (!result.ok) throw new Error(result.message)
  await using _ = result.server
  const asItIs = await heardByNobody(socketPath)
  await chmod(folder.dir, 0o755)
  const withAnOpenFolder = await heardByNobody(socketPath)
  await chmod(socketPath, 0o666)
  // Else the two before could have failed for another reason.
  const withBothOpen = await heardByNobody(socketPath)
  expect([asItIs, withAnOpenFolder, withBothOpen]).toEqual(['EACCES', 'EACCES', '{"type":"hello"'])
})
