import { mkdir, readFile, symlink } from 'node:fs/promises'
import path from 'node:path'
import { execa } from 'execa'
import { expect, inject, test } from 'vitest'
import { z } from 'zod'
import { TestCluster } from '../support/control-plane/test-cluster.ts'
import { eventually } from '../support/eventually.ts'
import { startFileServer } from '../support/file-server.ts'
import { writeLlamaGguf } from '../support/gguf-writer.ts'
import { missingBrowser, startShellBrowser } from '../support/shell-browser.ts'
import { ShellApp } from '../support/shell-app.ts'
import { missingPrograms, skipWhen, useLlamaServer } from '../support/skip.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { makeBundle } from '../support/update-world.ts'

const controlPlane = inject('controlPlane')
const llamaServer = useLlamaServer()
skipWhen('missing' in controlPlane ? controlPlane.missing : undefined)
skipWhen(missingBrowser())
skipWhen(missingPrograms('curl'))

const mostSteps = 4

const answerShape = z.object({ usage: z.object({ completion_tokens: z.number() }) })

test('from a downloaded app to a first token it takes the four steps that docs/install.md has, and no fifth', async () => {
  if ('missing' in controlPlane) return
  await using stack = new AsyncDisposableStack()
  const { dir } = stack.use(await temporaryFolder())
  const cluster = stack.use(await TestCluster.open(controlPlane.connection))
  const browser = stack.use(await startShellBrowser())
  const files = stack.use(await startFileServer())
  const model = path.join(dir, 'tiny.gguf')
  await writeLlamaGguf(model, { context: 16_384 })
  const { url } = files.serve('/tiny.gguf', { file: model })
  const brew = path.join(dir, 'brew/bin')
  await mkdir(brew, { recursive: true })
  const kubeconfig = await readFile(cluster.kubeconfig, 'utf8')
  const bundle = await makeBundle(path.join(dir, 'AppTranslocation/1/d'), '1.2.3')
  const applications = path.join(dir, 'Applications')
  const startAt = (at: string) =>
    ShellApp.start({
      folder: dir,
      kubeconfig,
      chromium: browser.endpoint,
      env: {
        PATH: [brew, '/usr/bin', '/bin'].join(path.delimiter),
        ELECTRON_STAND_IN_INSTALLED: '1',
        ELECTRON_STAND_IN_BUNDLE: at,
        ELECTRON_STAND_IN_APPLICATIONS: applications,
      },
      // Of this machine alone: the model is on loopback, where no cluster would have it, and pods reach no address of a test.
      ...(at === bundle && { preferences: { hostIp: '192.0.2.10' } }),
    })
  const steps: string[] = []
  const step = (title: string): void => void steps.push(title)

  step('Open Metalbar and move it to Applications.')
  {
    await using first = await startAt(bundle)
    await first.press('Move to Applications')
    expect(await first.exited).toBe(0)
  }
  await using app = await startAt(path.join(applications, 'Metalbar.app'))
  await app.icon('idle')
  await app.ask({ do: 'clickIcon' })
  const page = await browser.window()
  await page.getByText('not found').waitFor()

  step('Install llama-server.')
  await symlink(llamaServer, path.join(brew, 'llama-server'))

  step('Add a model.')
  await page.getByRole('button', { name: 'Add a model…' }).click()
  await page.getByLabel('Model', { exact: true }).fill(url)
  await page.getByRole('button', { name: 'Look it up' }).click()
  await page.getByText('Fits', { exact: true }).waitFor()
  await page.getByRole('textbox', { name: 'Name', exact: true }).fill('first')
  await page.getByRole('button', { name: 'Add', exact: true }).click()
  const { port = 0 } = await eventually(
    async () => {
      const service = await app.service('first')
      if (service.state === 'ready') return service
      throw new Error(service.message)
    },
    { what: 'the model to be ready' },
  )

  step('Ask it.')
  const line = await page.getByText(`curl http://127.0.0.1:${port}/`).innerText()
  const { stdout: answer } = await execa('sh', ['-c', line])
  const tokens = answerShape.parse(JSON.parse(answer)).usage
  const written = await readFile(path.join(import.meta.dirname, '../../docs/install.md'), 'utf8')
  const section = written.split('## First run')[1]?.split('\n## ')[0] ?? ''
  expect([tokens.completion_tokens > 0, steps, steps.length <= mostSteps]).toEqual([
    true,
    [...section.matchAll(/^\d+\. \*\*(.+?)\*\*/gm)].map(([, title]) => title),
    true,
  ])
  await app.quit()
})
