import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { expect, test } from 'vitest'
import { hostPlatform } from '../../src/agent-core/platform/host.ts'
import { readLaunchdPlist } from '../../src/installation/service/launchd.ts'
import { serviceLabel } from '../../src/installation/service/service-plan.ts'
import { useKubeSim } from '../support/api-worlds/api-worlds.ts'
import { eventually } from '../support/eventually.ts'
import { exists } from '../support/exists.ts'
import { GoAgentWorld } from '../support/go-agent/go-agent-world.ts'
import { migrateVerb } from '../support/go-agent/migrate-scene.ts'

const api = useKubeSim()

test('metal-agent migrate puts the service in place of the Go agent, which serves at once, and --undo swaps back', async () => {
  await using scene = await GoAgentWorld.open(api().connection)
  await scene.apply('one')
  await scene.startGoAgent({}, ['one'])
  const goPlist = await readFile(scene.plistFile, 'utf8')
  const plist = path.join(scene.home, 'Library/LaunchAgents', `${serviceLabel}.plist`)
  const goPort = await scene.untilPublished('one')
  const [goServer = 0] = await scene.goStarts('one')
  // A trial with a relay needs the ingress port, which agents of other tests may hold.
  const flags = ['--publish=direct', `--model-store=${scene.store}`]

  const there = await migrateVerb(scene, { flags })
  expect([there.code, there.said.replaceAll(scene.cluster.folder, 'FOLDER').split('\n')]).toEqual([
    0,
    expect.arrayContaining([
      '  --host-ip=192.0.2.10',
      '  The model store FOLDER/llmkube-models is left out: a reboot empties that folder. Models are downloaded again.',
      `Ending the Go agent (com.llmkube.metal-agent) and its models.`,
      'This agent serves now. "metal-agent migrate --undo" goes back to the Go agent.',
    ]),
  ])
  expect(readLaunchdPlist(await readFile(plist, 'utf8')).words).toEqual(
    expect.arrayContaining([...flags, `--namespace=${scene.cluster.namespace}`, `--kubeconfig=${scene.kubeconfig}`]),
  )
  expect([await exists(scene.plistFile), await hostPlatform().process(goServer)]).toEqual([false, undefined])
  const ownPort = await eventually(async () => {
    const published = await scene.cluster.published('one')
    return published?.ready === true && published.port !== goPort ? published.port : undefined
  })
  expect((await fetch(`http://127.0.0.1:${ownPort}/health`)).status).toBe(200)

  const back = await migrateVerb(scene, { undo: true })
  expect([back.code, back.complained]).toEqual([0, ''])
  await eventually(async () => {
    const published = await scene.cluster.published('one')
    return published?.ready === true && published.port !== ownPort
  })
  expect([await readFile(scene.plistFile, 'utf8'), await exists(plist)]).toEqual([goPlist, false])
  expect(await migrateVerb(scene, { undo: true })).toMatchObject({
    code: 1,
    complained: expect.stringMatching(/^metal-agent: There is nothing to undo/) as string,
  })
})
