import type { ReactNode } from 'react'
import { SwitchButton, SwitchField } from 'react-aria-components/Switch'
import { Text } from 'react-aria-components/Text'
import { spellingOf } from '../../contract/setting-text.ts'
import { editableRow, type SettingView } from '../../contract/settings.ts'
import { Button } from '../components/button.tsx'
import { classNames } from '../components/class-names.ts'
import { Command } from '../components/command.tsx'
import { TextInput } from '../components/text-input.tsx'
import { textOf } from '../settings-draft.ts'
import { useTrust } from '../store.ts'
import { settingWords } from '../words/views.ts'
import styles from './setting-field.module.css'

interface SettingFieldProps {
  readonly view: SettingView
  /** What a person wrote; undefined = nothing, null = the default is wanted. */
  readonly draft: string | null | undefined
  readonly problem: string | undefined
  readonly onChange: (text: string | null | undefined) => void
}

export function SettingField({ view, draft, problem, onChange }: SettingFieldProps) {
  const trust = useTrust()
  const { trust: needed } = editableRow(view.name)
  const spelled = spellingOf(view.name)
  if (view.from === 'flag') return <Fixed view={view} why={settingWords.byFlag} />
  if (needed === 'shell' && trust === 'page') {
    return (
      <Fixed view={view} why={settingWords.needsShell}>
        <Command text={settingWords.command(spelled)} copyLabel={settingWords.copyCommand(spelled)} />
      </Fixed>
    )
  }
  return (
    <div className={styles['field']} data-changed={draft !== undefined}>
      <Value view={view} draft={draft} problem={problem} onChange={onChange} />
      {view.from === 'person' && draft !== null && (
        <div>
          <Button look="plain" label={settingWords.defaultOf(spelled)} onPress={() => onChange(null)}>
            {settingWords.useDefault}
          </Button>
        </div>
      )}
      {draft === null && <p className={styles['note']}>{settingWords.willBeDefault}</p>}
    </div>
  )
}

function Value({ view, draft, problem, onChange }: SettingFieldProps) {
  const { name } = view
  const help = settingWords.help(editableRow(name))
  const text = draft ?? textOf(view)
  const spelled = spellingOf(name)
  if (editableRow(name).kind === 'switch') {
    return (
      <SwitchField isSelected={text === 'on'} onChange={(on) => onChange(on ? 'on' : 'off')}>
        <SwitchButton className={classNames(styles['switch'])}>
          <span className={styles['track']} aria-hidden="true" />
          {spelled}
        </SwitchButton>
        <Text slot="description" className={classNames(styles['note'])}>
          {help}
        </Text>
      </SwitchField>
    )
  }
  return (
    <TextInput
      label={spelled}
      value={draft === null ? '' : text}
      onChange={onChange}
      help={help}
      problem={problem}
      placeholder={settingWords.placeholder}
    />
  )
}

interface FixedProps {
  readonly view: SettingView
  readonly why: string
  readonly children?: ReactNode
}

/** A setting that cannot be set here, and why. */
function Fixed({ view, why, children }: FixedProps) {
  const text = textOf(view)
  return (
    <div className={styles['field']}>
      <p>
        <strong className={styles['label']}>{spellingOf(view.name)}</strong> {text === '' ? settingWords.notSet : text}
      </p>
      <p className={styles['note']}>{settingWords.help(editableRow(view.name))}</p>
      <p className={styles['note']}>{why}</p>
      {children}
    </div>
  )
}
