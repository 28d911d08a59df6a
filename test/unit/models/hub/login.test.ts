import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import { expect, test } from 'vitest'
import { hubLoginView } from '../../../../src/contract/models.ts'
import { hubLogin } from '../../../../src/agent-core/models/hub/token.ts'
import { temporaryFolder } from '../../../support/temporary-folder.ts'

const secret = 'hf_SecretOfThisPerson'

test('where the token comes from is told in the order in which it is looked for, and never the token', async () => {
  await using folder = await temporaryFolder()
  const home = folder.dir
  const [ofTools, ofSetting, none] = ['token', 'mine', 'none'].map((name) => path.join(home, name))
  await writeFile(ofTools ?? '', secret)
  await writeFile(ofSetting ?? '', secret)
  const env = { HF_TOKEN_PATH: ofTools }
  const all = await Promise.all([
    hubLogin({ hubTokenFile: undefined, env: {}, home }),
    hubLogin({ hubTokenFile: undefined, env, home }),
    hubLogin({ hubTokenFile: undefined, env: { ...env, HF_TOKEN: secret }, home }),
    hubLogin({
      hubTokenFile: undefined,
      keptHubToken: () => Promise.resolve(secret),
      env: { ...env, HF_TOKEN: secret },
      home,
    }),
    hubLogin({ hubTokenFile: undefined, keptHubToken: () => Promise.reject(new Error('locked')), env, home }),
    hubLogin({ hubTokenFile: ofSetting, env: { ...env, HF_TOKEN: secret }, home }),
    hubLogin({ hubTokenFile: none, env, home }),
    hubLogin({ hubTokenFile: undefined, env: { HF_TOKEN: `${secret} and more` }, home }),
  ])
  expect(all).toEqual([
    { tokenSource: 'none' },
    { tokenSource: 'file', where: ofTools },
    { tokenSource: 'environment', where: 'HF_TOKEN' },
    { tokenSource: 'keychain' },
    { tokenSource: 'none', problem: expect.stringContaining('(locked)') as string },
    { tokenSource: 'file', where: ofSetting },
    { tokenSource: 'none', problem: expect.stringContaining(`${none} of the setting hub-token-file`) as string },
    { tokenSource: 'none', problem: expect.stringContaining('from HF_TOKEN is not valid') as string },
  ])
  expect(JSON.stringify(all)).not.toContain(secret)
  for (const view of all) expect(hubLoginView.parse(view)).toEqual(view)
})
