import { expect, test } from 'vitest'
import type { Command, CommandResult } from '../../src/contract/commands.ts'
import { eventually } from '../support/eventually.ts'
import { sampleSnapshot } from '../support/sample-snapshot.ts'
import { ready } from '../support/window/scene-services.ts'
import { type SceneName, scenes } from '../support/window/scenes.ts'
import { useStage } from './stage.ts'

const show = useStage()

test.for<[SceneName, button: string, command: object]>([
  ['no-kubeconfig', 'Read the kubeconfig again', { name: 'reloadKubeconfig' }],
  ['choose-context', 'Use minikube', { name: 'selectContext', context: 'minikube' }],
  ['no-answer', 'Try now', { name: 'resync' }],
  ['no-definitions', 'Try now', { name: 'resync' }],
  ['no-rights', 'Try now', { name: 'resync' }],
  ['no-login', 'Try now', { name: 'resync' }],
  ['no-runtime', 'Use 100.64.0.10 (utun4)', { name: 'setHostAddress', address: '100.64.0.10' }],
])('%s: what is missing has its button, whose answer stands there', async ([name, button, command]) => {
  await using window = await show(scenes[name])
  const { page, agent } = window
  agent.answers.push({ outcome: 'refused', by: 'agent', message: 'It stays as it is.' })
  await page.getByRole('button', { name: button, exact: true }).click()
  await page.getByText('It stays as it is.').waitFor()
  expect(agent.asked.map((asked) => asked.command)).toEqual([command])
})

test.for<[SceneName, button: string, text: string]>([
  ['no-definitions', 'Copy command', 'helm install llmkube llmkube/llmkube --kube-context lab'],
  ['no-definitions', 'Copy the kubectl line', 'kubectl --context lab apply --server-side'],
  ['no-login', 'Copy command', 'kubectl --context lab auth whoami'],
  ['no-runtime', 'Copy command', 'brew install llama.cpp'],
])('%s: what is missing has the command that mends it, to copy', async ([name, button, text]) => {
  await using window = await show(scenes[name])
  const { page } = window
  await page.getByRole('region', { name: 'What was found' }).getByRole('button', { name: button }).click()
  const copied = await eventually(() => page.evaluate(() => navigator.clipboard.readText()))
  expect(copied).toContain(text)
})

test('where macOS keeps the app from the local network, its pane is a press away beside the reason and in the list', async () => {
  await using window = await show(scenes['no-permission'])
  const { page, app } = window
  for (const place of ['Connection', 'What was found']) {
    const button = { name: 'Open Local Network settings' }
    await page.getByLabel(place).getByRole('button', button).click()
  }
  await eventually(() => app.asked.filter(({ verb }) => verb === 'openPane').length === 2)
  expect(app.asked.filter(({ verb }) => verb === 'openPane').map(({ content }) => content)).toEqual(
    Array(2).fill('localNetwork'),
  )
})

test('the rights are copied in one press, with all but the context of an administrator filled in', async () => {
  await using window = await show(scenes['no-rights'])
  const { page } = window
  await page.getByRole('button', { name: 'Copy commands for the rights' }).click()
  const copied = await eventually(() => page.evaluate(() => navigator.clipboard.readText()))
  expect([
    copied.split('\n')[1],
    copied.includes('resources: [inferenceservices, models]'),
    copied.includes('create --namespace default rolebinding metalbar-agent'),
    await page.getByText('kind: ClusterRole').filter({ visible: true }).count(),
  ]).toEqual(['ADMIN=context-of-an-administrator', true, true, 0])
})

test('a context that is called production is asked about in a plain question, and served only after a yes', async () => {
  await using window = await show(scenes['choose-production'])
  const { page, agent } = window
  await page.getByRole('button', { name: 'Stay' }).and(page.locator(':focus')).waitFor()
  const before = agent.asked.length
  await page.getByRole('button', { name: 'Stay' }).click()
  await page.getByRole('button', { name: 'Use prod-eu' }).click()
  await page.getByRole('button', { name: 'Yes, serve it' }).click()
  await eventually(() => agent.asked.length === 1)
  expect({ before, asked: agent.asked.map(({ command }) => command) }).toEqual({
    before: 0,
    asked: [{ name: 'selectContext', context: 'prod-eu', accept: ['production'] }],
  })
})

test('what the agent is in doubt about is a question with two answers, and no refusal', async () => {
  await using window = await show(scenes['choose-context'])
  const { page, agent } = window
  const yes: Command = { name: 'selectContext', context: 'minikube', accept: ['unverified'] }
  const message = 'Nothing could be served for "minikube".'
  const instead = { label: 'Switch anyway', command: yes }
  const doubt: CommandResult = { outcome: 'refused', by: 'agent', message, instead }
  agent.answers.push(doubt, doubt)
  const use = page.getByRole('button', { name: 'Use minikube' })
  await use.click()
  const question = page.getByRole('group', { name: 'Switch anyway' })
  await question.getByText(message).waitFor()
  const refused = await page.getByText('Refused', { exact: true }).count()
  await question.getByRole('button', { name: 'Stay' }).click()
  await question.waitFor({ state: 'detached' })
  await use.click()
  await question.getByRole('button', { name: 'Switch anyway' }).click()
  await eventually(() => agent.asked.length === 3)
  expect({ refused, last: agent.asked.at(-1)?.command }).toEqual({ refused: 0, last: yes })
})

test('on Linux llama-server is installed by a line too, and a package is said to do as well', async () => {
  await using window = await show(scenes['no-runtime'])
  const { page, agent } = window
  await page.getByText('brew install llama.cpp').first().waitFor()
  expect(await page.getByText('Homebrew has it for Linux too').count()).toBe(0)
  agent.show(sampleSnapshot({ revision: 2, services: [], host: { ...sampleSnapshot().host, platform: 'linux' } }))
  await page.getByText('Homebrew has it for Linux too').waitFor()
  await page.getByRole('button', { name: 'Copy command' }).click()
  expect(await eventually(() => page.evaluate(() => navigator.clipboard.readText()))).toBe('brew install llama.cpp')
})

test('what a person mends elsewhere is seen when they come back to the window', async () => {
  await using window = await show(scenes['no-runtime'])
  const { page, agent } = window
  await page.getByText('llama-server not found').waitFor()
  agent.known.runtimes = {
    runtimes: [{ name: 'llama-server', formats: ['gguf'], path: '/opt/homebrew/bin/llama-server', version: '6501' }],
  }
  await page.evaluate('window.dispatchEvent(new Event("focus"))')
  await page.getByText('version 6501 · /opt/homebrew/bin/llama-server').waitFor()
  expect(await page.getByText('brew install llama.cpp').count()).toBe(0)
})

test('the first service takes its place, and nothing of it keeps from another view', async () => {
  await using window = await show(scenes['no-rights'])
  const { page, agent } = window
  await page.getByRole('tab', { name: 'Activity' }).click()
  await page.getByRole('heading', { name: 'Activity' }).waitFor()
  await page.getByRole('tab', { name: 'Services' }).click()
  await page.getByText('What was found').waitFor()
  agent.show(sampleSnapshot({ revision: 2, services: [ready] }))
  await page.getByRole('option', { name: ready.name }).waitFor()
  expect(await page.getByText('What was found').count()).toBe(0)
})
