import { readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { z } from 'zod'
import { ledgerProcesses } from '../../src/agent-core/servers/ledger.ts'
import { untilGone } from './agent-world.ts'
import type { ShellApp } from './shell-app.ts'

const ledger = z.looseObject({ servers: z.array(z.looseObject({ bootId: z.string() })) })

/**
 * The machine loses its power while the app and its models run. For the next one that starts on the state folder this machine has booted since,
 * for the boot that the ledger of servers names was another.
 */
export async function cutPower(app: ShellApp, bootId: string): Promise<void> {
  app.signal('SIGKILL')
  await app.exited
  const file = path.join(app.stateDir, 'ledger.json')
  const text = await readFile(file, 'utf8')
  for (const { pid } of ledgerProcesses(text)) {
    process.kill(pid, 'SIGKILL')
    await untilGone(pid)
  }
  const left = ledger.parse(JSON.parse(text))
  const servers = left.servers.map((server) => ({ ...server, bootId }))
  await writeFile(file, JSON.stringify({ ...left, servers }))
}
