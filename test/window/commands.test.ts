import { expect, test } from 'vitest'
import { LinkError } from '../../src/contract/client.ts'
import { sampleSnapshot } from '../support/sample-snapshot.ts'
import { eventually } from '../support/eventually.ts'
import { held, ready } from '../support/window/scene-services.ts'
import { scenes } from '../support/window/scenes.ts'
import { useStage } from './stage.ts'

const show = useStage()
const service = { namespace: 'default', name: 'phi-4-mini' }

test('a command that is under way says so, and no other can be given meanwhile', async () => {
  await using window = await show(scenes['stop-pending'])
  const { page, agent } = window
  const stopping = page.getByRole('button', { name: 'Stopping…' })
  await stopping.waitFor()
  await stopping.press('Enter')
  const restart = page.getByRole('button', { name: 'Restart' })
  expect({ restart: await restart.isDisabled(), asked: agent.asked.map(({ command }) => command) }).toEqual({
    restart: true,
    asked: [{ name: 'stop', service }],
  })

  agent.answer({ outcome: 'accepted', message: 'It is suspended in the cluster.' })
  await page.getByText('It is suspended in the cluster.').waitFor()
  agent.show(sampleSnapshot({ revision: 2, services: [{ ...held, uid: ready.uid, name: ready.name, revision: 2 }] }))
  await page.getByRole('button', { name: 'Start' }).waitFor()
  expect(await page.getByRole('button', { name: 'Stop' }).count()).toBe(0)
})

test('a refusal stays where it was asked, and what is offered instead is one press away', async () => {
  await using window = await show(scenes['stop-refused'])
  const { page, agent } = window
  agent.answers.push({ outcome: 'done', message: 'Held on this machine.' })
  await page.getByRole('button', { name: 'Hold it on this machine' }).click()
  await page.getByText('Held on this machine.').waitFor()
  expect(agent.asked.map(({ command }) => command)).toEqual([
    { name: 'stop', service },
    { name: 'stop', service, scope: 'here' },
  ])
  await page.getByRole('button', { name: 'Dismiss' }).click()
  await page.getByText('Held on this machine.').waitFor({ state: 'detached' })
})

test('a command whose answer was lost is repeated with the same request id, so that it is done once', async () => {
  await using window = await show(scenes['stop-unknown'])
  const { page, agent } = window
  agent.answers.push({ outcome: 'done', message: 'It is stopped.' })
  await page.getByRole('button', { name: 'Try again' }).click()
  await page.getByText('It is stopped.').waitFor()
  const ids = agent.asked.map(({ requestId }) => requestId)
  expect({ requests: ids.length, different: new Set(ids).size }).toEqual({ requests: 2, different: 1 })
})

test.each([
  { scene: 'download', button: 'Cancel download', command: 'cancelDownload' },
  { scene: 'hold', button: 'Start', command: 'start' },
  { scene: 'crash', button: 'Restart', command: 'restart' },
  { scene: 'paused', button: 'Resume', command: 'resumeNode' },
] as const)('$button asks for $command', async ({ scene, button, command }) => {
  await using window = await show(scenes[scene])
  await window.page.getByRole('button', { name: button }).click()
  await eventually(() => window.agent.asked.length === 1)
  expect(window.agent.asked[0]?.command.name).toBe(command)
})

test('nothing can be asked of an agent that is gone', async () => {
  await using window = await show({ ...scenes.detail, then: (agent) => agent.leave() })
  const stop = window.page.getByRole('button', { name: 'Stop' })
  await eventually(() => stop.isDisabled())
})

test('a command that the agent does not understand says so', async () => {
  await using window = await show(scenes.detail)
  window.agent.answers.push(new LinkError('misunderstood', 'The agent is of another version: restart it.'))
  await window.page.getByRole('button', { name: 'Stop' }).click()
  await window.page.getByText('The agent is of another version: restart it.').waitFor()
})

test('an address and a URL are copied, and the button says so', async () => {
  await using window = await show(scenes.detail)
  const { page } = window
  const copied: string[] = []
  for (const name of ['Copy address', `Copy URL ${ready.url}`]) {
    const button = page.getByRole('button', { name })
    await button.click()
    await button.getByText('Copied').waitFor()
    copied.push(await page.evaluate(() => navigator.clipboard.readText()))
  }
  expect(copied).toEqual(['192.168.1.20', ready.url])
})
