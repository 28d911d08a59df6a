import { symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { execa } from 'execa'
import type { Page } from 'playwright'
import { expect, test } from 'vitest'
import { z } from 'zod'
import type { CommandInput } from '../../src/contract/commands.ts'
import { clusterView } from '../../src/contract/cluster.ts'
import { eventually } from '../support/eventually.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'
import { sampleServerPath } from '../support/sample-servers/sample.ts'
import { missingBrowser } from '../support/shell-browser.ts'
import { shellWorld } from '../support/shell-world.ts'
import { skipWhen } from '../support/skip.ts'

skipWhen(missingBrowser())

const reply = z.object({ ok: z.literal(true), value: z.object({ outcome: z.string() }) })

/** As the window asks, over the bridge of its preload script. */
const send = async (page: Page, command: CommandInput) =>
  reply.parse(
    await page.evaluate(
      `metalbar.ask('command', { requestId: crypto.randomUUID(), command: ${JSON.stringify(command)} })`,
    ),
  ).value.outcome

const cluster = async (page: Page) =>
  z.object({ value: z.object({ cluster: clusterView }) }).parse(await page.evaluate("metalbar.ask('snapshot')")).value
    .cluster

test('the app may set what takes a shell, each to its effect: executable, namespace, kubeconfig and context', async () => {
  await using shell = await shellWorld()
  await using other = await KubeSim.start()
  const { world, app } = shell
  const page = await shell.open()

  const llamaServer = join(app.folder, 'llama-server-of-mine')
  await symlink(sampleServerPath, llamaServer)
  expect(await send(page, { name: 'updateSettings', settings: { llamaServer } })).toBe('done')
  world.apply('tiny')
  await page.getByRole('option', { name: 'tiny' }).getByText('Ready').waitFor()
  const pid = await app.serverOf('tiny')
  const { stdout } = await execa('ps', ['-ww', '-o', 'command=', '-p', `${pid}`])
  expect(stdout).toContain('llama-server-of-mine')

  expect(await send(page, { name: 'updateSettings', settings: { namespace: 'kube-system' } })).toBe('accepted')
  await page.getByText(/ \/ kube-system$/).waitFor()
  await page.getByRole('option', { name: 'tiny' }).waitFor({ state: 'hidden' })

  const kubeconfig = join(app.folder, 'other.kubeconfig')
  await writeFile(kubeconfig, withSecond(other.kubeconfig(), world.sim.kubeconfig()))
  expect(await send(page, { name: 'updateSettings', settings: { kubeconfig } })).toBe('accepted')
  await eventually(async () => (await cluster(page)).server === other.url)

  expect(['done', 'accepted']).toContain(await send(page, { name: 'selectContext', context: 'second' }))
  await eventually(async () => (await cluster(page)).server === world.sim.url)
  await page.getByText('second / kube-system').waitFor()
})

/** A kubeconfig with the context of another one as `second`. */
function withSecond(first: string, second: string): string {
  const isEntry = (line: string) => line.startsWith('- ')
  const entries = second.split('\n').filter(isEntry)
  const named = entries.map((line) => line.replaceAll(/(name|cluster|user): sim\b/g, '$1: second')).values()
  return first
    .split('\n')
    .flatMap((line) => (isEntry(line) ? [line, ...named.take(1)] : [line]))
    .join('\n')
}
