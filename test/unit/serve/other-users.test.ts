import { once } from 'node:events'
import { chmod, chown, lstat, mkdir, readFile, symlink, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { execa } from 'execa'
import { expect, test } from 'vitest'
import { ensureSocketFolder, socketPathFor } from '../../../src/agent-core/state/socket-path.ts'
import { connectToAgent } from '../../../src/serve/client/agent-client.ts'
import { probeSocket } from '../../../src/serve/frames.ts'
import { serveOnSocket } from '../../../src/serve/socket-server.ts'
import { RecordingDoor } from '../../support/carriers/recording-door.ts'
import { skipWhen } from '../../support/skip.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { runVerb } from '../../support/run-verb.ts'

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

/** Another user who listens where the agent of a state folder with a long path would, in a temporary folder that both may use; says who came. */
async function impostor(temporaryDir: string, socketPath: string) {
  await chmod(temporaryDir, 0o1777)
  const visits = path.join(temporaryDir, 'visits')
  const script = `
    const fs = require('node:fs')
    const [folder, socketPath, visits] = ${JSON.stringify([path.dirname(socketPath), socketPath, visits])}
    fs.mkdirSync(folder, { mode: 0o755 })
    fs.writeFileSync(visits, '')
    require('node:net').createServer((socket) => {
      fs.appendFileSync(visits, 'came ')
      socket.destroy()
    }).listen(socketPath, () => {
      fs.chmodSync(socketPath, 0o777)
      process.stdout.write('ready')
    })`
  const child = execa(process.execPath, ['-e', script], { uid: nobody, gid: nobody, cwd: '/', env: {}, reject: false })
  await once(child.stdout, 'data')
  return {
    visits: () => readFile(visits, 'utf8'),
    [Symbol.asyncDispose]: async () => {
      child.kill()
      await child
    },
  }
}

/** A state folder whose path is too long for a socket. */
async function longStateFolder(dir: string) {
  const stateDir = path.join(dir, 'x'.repeat(100), 'metalbar')
  await mkdir(stateDir, { recursive: true, mode: 0o700 })
  const temporaryDir = path.join(dir, 'tmp')
  await mkdir(temporaryDir)
  await chmod(dir, 0o755)
  return { stateDir, temporaryDir, socketPath: socketPathFor(stateDir, temporaryDir) }
}

test('another user who was first at the place of the socket is neither asked nor joined, and uninstall goes on without them', async () => {
  await using folder = await temporaryFolder()
  const { stateDir, temporaryDir, socketPath } = await longStateFolder(folder.dir)
  await using there = await impostor(temporaryDir, socketPath)
  const strange = `${path.dirname(socketPath)} belongs to user ${nobody}`
  await expect(connectToAgent({ socketPath, stateDir })).rejects.toMatchObject({
    code: 'refused',
    message: expect.stringContaining(strange) as unknown,
  })
  await expect(probeSocket(socketPath, stateDir)).rejects.toThrow(strange)
  const served = await serveOnSocket({
    ...{ socketPath, stateDir, version: '1', door: new RecordingDoor() },
    onError: (error) => {
      throw error
    },
  })
  expect(served).toMatchObject({ ok: false, reason: 'unusable', message: expect.stringContaining(strange) as unknown })
  await writeFile(path.join(stateDir, 'node.json'), '{}')
  const home = path.join(folder.dir, 'home')
  await mkdir(home)
  const words = ['uninstall', '--everything', '--yes', '--state-dir', stateDir]
  const { code, stdout, stderr } = await runVerb(words, home, { env: { PATH: '' }, platform: 'linux', temporaryDir })
  expect([code, stdout + stderr]).toEqual([0, expect.stringContaining('done  State')])
  expect([(await lstat(socketPath)).uid, await there.visits()]).toEqual([nobody, ''])
})

test('a socket is not believed in a folder that others may write, through a link, or as the file of another user', async () => {
  await using folder = await temporaryFolder()
  const { stateDir, socketPath } = await longStateFolder(folder.dir)
  const own = path.dirname(socketPath)
  await ensureSocketFolder(socketPath, stateDir)
  const look = () => probeSocket(socketPath, stateDir).catch((error: unknown) => String(error))
  const said = [await look()]
  await chmod(own, 0o777)
  said.push(await look())
  await chmod(own, 0o700)
  await writeFile(socketPath, '')
  await chown(socketPath, nobody, nobody)
  said.push(await look())
  const linked = path.join(folder.dir, 'linked')
  await symlink(own, linked)
  said.push(await probeSocket(path.join(linked, 'agent.sock'), stateDir).catch((error: unknown) => String(error)))
  await chown(own, nobody, nobody)
  await expect(ensureSocketFolder(socketPath, stateDir)).rejects.toThrow(`${own} belongs to user ${nobody}`)
  expect(said).toEqual([
    false,
    expect.stringContaining(`${own} may be written by others (mode 0777)`),
    expect.stringContaining(`${socketPath} belongs to user ${nobody}`),
    expect.stringContaining(`${linked} is a symbolic link`),
  ])
})
