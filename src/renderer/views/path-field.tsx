import { useState } from 'react'
import type { ChosenFile } from '../../contract/app-bridge.ts'
import type { SettingName } from '../../contract/settings.ts'
import { Button } from '../components/button.tsx'
import { TextInput } from '../components/text-input.tsx'
import { useApp } from '../store.ts'
import { settingWords } from '../words/settings/settings.ts'

const kinds: Readonly<Partial<Record<SettingName, ChosenFile>>> = {
  kubeconfig: 'kubeconfig',
  llamaServer: 'executable',
  macmon: 'executable',
  hubTokenFile: 'tokenFile',
  caFile: 'certificates',
}

interface PathFieldProps {
  readonly name: SettingName
  readonly title: string
  readonly text: string
  readonly help: string
  readonly problem: string | undefined
  readonly onChange: (text: string) => void
}

/** A path that is written, or in the app chosen in a dialog. */
export function PathField({ name, title, text, help, problem, onChange }: PathFieldProps) {
  const app = useApp()
  const [refusal, setRefusal] = useState<string>()
  const kind = kinds[name]
  const choose = async (what: ChosenFile) => {
    const reply = await app?.chooseFile(what)
    setRefusal(reply?.ok === false ? reply.failure.message : undefined)
    if (reply?.ok === true && reply.value !== null) onChange(reply.value)
  }
  const write = (written: string) => {
    setRefusal(undefined)
    onChange(written)
  }
  return (
    <TextInput
      label={title}
      value={text}
      onChange={write}
      help={help}
      problem={problem ?? refusal}
      placeholder={settingWords.placeholder}
      {...(app !== undefined &&
        kind !== undefined && {
          beside: (
            <Button label={settingWords.chooseFor(title)} onPress={() => void choose(kind)}>
              {settingWords.choose}
            </Button>
          ),
        })}
    />
  )
}
