import type { ReactNode } from 'react'
import { editableRow, type SettingView, spellingOf } from '../../contract/settings.ts'
import { Button } from '../components/button.tsx'
import { ChoiceRow } from '../components/choice-row.tsx'
import { Command } from '../components/command.tsx'
import { Sentence } from '../components/sentence.tsx'
import { SwitchRow } from '../components/switch-row.tsx'
import { TextInput } from '../components/text-input.tsx'
import { isConflict, textOf, type Written } from '../settings-draft.ts'
import { useTrust } from '../store.ts'
import { settingWords } from '../words/settings/settings.ts'
import { ByteField } from './byte-field.tsx'
import { PathField } from './path-field.tsx'
import styles from './setting-field.module.css'

interface SettingFieldProps {
  readonly view: SettingView
  readonly written: Written | undefined
  readonly problem: string | undefined
  /** What was written is on its way to the agent. */
  readonly isPending: boolean
  /** Drawn above the field, for a value that is seen better than written. */
  readonly scale?: (text: string, onChange: (text: string) => void) => ReactNode
  /** Drawn below the field: what the change would do. */
  readonly preview?: ReactNode
  /** Undefined = nothing is written over it any more. */
  readonly onChange: (text: string | null | undefined) => void
}

export function SettingField({ view, written, problem, isPending, scale, preview, onChange }: SettingFieldProps) {
  const trust = useTrust()
  const { trust: needed } = editableRow(view.name)
  const spelled = spellingOf(view.name)
  const title = settingWords.titleOf(view.name)
  if (view.from === 'flag') return <Fixed view={view} why={settingWords.byFlag} />
  if (needed === 'shell' && trust === 'page') {
    return (
      <Fixed view={view} why={settingWords.needsShell}>
        <Command text={settingWords.command(spelled)} copyLabel={settingWords.copyCommand(spelled)} />
      </Fixed>
    )
  }
  return (
    <div className={styles['field']} data-changed={written !== undefined}>
      {scale?.(written === undefined ? textOf(view) : (written.text ?? ''), onChange)}
      {scale !== undefined && preview}
      <Value view={view} written={written} problem={problem} onChange={onChange} />
      {scale === undefined && preview}
      {written !== undefined && !isPending && isConflict(written, view) && (
        <Conflict view={view} onTake={() => onChange(undefined)} />
      )}
      {view.from === 'person' && written?.text !== null && (
        <div>
          <Button look="plain" label={settingWords.defaultOf(title)} onPress={() => onChange(null)}>
            {settingWords.useDefault}
          </Button>
        </div>
      )}
      {view.from === 'startFile' && <p className={styles['note']}>{settingWords.byStartFile}</p>}
      {written?.text === null && <p className={styles['note']}>{settingWords.willBeDefault}</p>}
    </div>
  )
}

interface ConflictProps {
  readonly view: SettingView
  readonly onTake: () => void
}

/** Somebody else set it while a person wrote here. */
function Conflict({ view, onTake }: ConflictProps) {
  return (
    <div className={styles['conflict']} role="status">
      <p>{settingWords.conflict(view)}</p>
      <Button look="plain" label={settingWords.takeOf(settingWords.titleOf(view.name))} onPress={onTake}>
        {settingWords.take}
      </Button>
    </div>
  )
}

function Value({ view, written, problem, onChange }: Omit<SettingFieldProps, 'isPending'>) {
  const { name } = view
  const help = settingWords.help(name)
  const text = written?.text ?? (written === undefined ? textOf(view) : '')
  const title = settingWords.titleOf(name)
  const field = { title, text, help, problem, onChange }
  switch (editableRow(name).kind) {
    case 'switch':
      return <SwitchRow {...field} isOn={text === 'on'} onChange={(on) => onChange(on ? 'on' : 'off')} />
    case 'choice':
      return <ChoiceRow {...field} words={settingWords.choicesOf(name) ?? {}} value={text} />
    case 'bytes':
      return <ByteField {...field} usualUnit={name === 'downloadBytesPerSecond' ? 'M' : 'G'} />
    case 'path':
    case 'executable':
      return <PathField {...field} name={name} />
    default:
      return (
        <TextInput
          label={title}
          value={text}
          onChange={onChange}
          help={help}
          problem={problem}
          placeholder={settingWords.placeholder}
        />
      )
  }
}

interface FixedProps {
  readonly view: SettingView
  readonly why: string
  readonly children?: ReactNode
}

/** A setting that cannot be set here, and why. */
function Fixed({ view, why, children }: FixedProps) {
  return (
    <div className={styles['field']}>
      <p>
        <strong className={styles['label']}>{settingWords.titleOf(view.name)}</strong> {settingWords.value(view)}
      </p>
      <p className={styles['note']}>
        <Sentence text={settingWords.help(view.name)} />
      </p>
      <p className={styles['note']}>{why}</p>
      {children}
    </div>
  )
}
