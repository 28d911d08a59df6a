import { SwitchButton, SwitchField } from 'react-aria-components/Switch'
import { Text } from 'react-aria-components/Text'
import { classNames } from './class-names.ts'
import { Sentence } from './sentence.tsx'
import styles from './switch-row.module.css'

interface SwitchRowProps {
  readonly title: string
  readonly help: string
  readonly isOn: boolean
  readonly disabled?: boolean
  readonly onChange: (isOn: boolean) => void
}

/** A switch with its title, and below it what it does. */
export function SwitchRow({ title, help, isOn, disabled = false, onChange }: SwitchRowProps) {
  return (
    <SwitchField isSelected={isOn} isDisabled={disabled} onChange={onChange}>
      <SwitchButton className={classNames(styles['switch'])}>
        <span className={styles['track']} aria-hidden="true" />
        {title}
      </SwitchButton>
      <Text slot="description" className={classNames(styles['help'])}>
        <Sentence text={help} />
      </Text>
    </SwitchField>
  )
}
