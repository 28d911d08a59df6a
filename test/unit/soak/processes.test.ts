import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { Processes } from '../../soak/processes.ts'
import { eventually } from '../../support/eventually.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

test.runIf(process.platform === 'linux')(
  'a server is found however late it becomes one, and is gone when it has ended',
  async () => {
    await using folder = await temporaryFolder()
    const cwd = join(folder.dir, 'first/runs')
    await mkdir(cwd, { recursive: true })
    const processes = new Processes(folder.dir)
    const server = ['--alias', 'red', '--port', '20000', '--model', 'red.gguf', '--ctx-size', '2048']
    const child = spawn('sh', ['-c', `read go; exec sh -c 'read end' sample ${server.join(' ')}`], {
      cwd,
      stdio: ['pipe', 'ignore', 'ignore'],
    })
    const found = () => processes.look().map(({ pid, agent, service, port }) => ({ pid, agent, service, port }))
    for (let looks = 0; looks < 50; looks += 1) expect(found()).toEqual([])
    child.stdin.write('go\n')
    await eventually(() => expect(found()).toEqual([{ pid: child.pid, agent: 'first', service: 'red', port: 20_000 }]))
    child.stdin.write('end\n')
    await once(child, 'exit')
    expect(found()).toEqual([])
  },
)

test.runIf(process.platform === 'linux')(
  'a server of MLX, which takes no name, is of the service in whose folder it works, and its size is that of its slots',
  async () => {
    await using folder = await temporaryFolder()
    const cwd = join(folder.dir, 'first/state/runs/default.red/2026-11-26T03-13-22Z-1/work')
    await mkdir(cwd, { recursive: true })
    const processes = new Processes(folder.dir)
    const found = () => processes.look().map(({ pid, service, model, size }) => ({ pid, service, model, size }))
    for (const [slots, size] of [
      [[], 1_024],
      [['--max-slots', '3'], 3_072],
    ] as const) {
      const server = ['mlx-server', '--model', '../model', '--port', '20000', ...slots]
      const child = spawn('sh', ['-c', 'read end', ...server], { cwd, stdio: ['pipe', 'ignore', 'ignore'] })
      const model = join(cwd, '../model')
      await eventually(() => expect(found()).toEqual([{ pid: child.pid, service: 'red', model, size }]))
      child.stdin.write('end\n')
      await once(child, 'exit')
      expect(found()).toEqual([])
    }
  },
)
